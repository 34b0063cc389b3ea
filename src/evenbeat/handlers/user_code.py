"""What the user's code registers with an app: handlers, functions and declared jobs."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from evenbeat.config import Settings
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.definition import ScheduleOptions, define
from evenbeat.core.jobs.model import DECLARED_IN, Definition
from evenbeat.core.time.schedules import Schedule
from evenbeat.handlers import built_in
from evenbeat.handlers.function import Function, FunctionHandler, name_of
from evenbeat.handlers.sql_function import SqlFunction
from evenbeat.handlers.typed_payloads import as_json

Code = TypeVar("Code", bound=Callable[..., Any])


class UserCode:
    """Decorators that register a function and return it unchanged."""

    def __init__(self, settings: Settings) -> None:
        self._functions = Function()
        self._sql_functions = SqlFunction()
        self.registry = built_in(settings, self._functions, self._sql_functions)
        # The jobs that the code declares, by name, and the modules that it is made of.
        self.declared: dict[str, Definition] = {}
        self.modules: set[str] = set()
        # By id(): not every callable is hashable. The registry keeps them alive.
        self._kinds: dict[int, str] = {}

    def handler(self, kind: str) -> Callable[[Code], Code]:
        """Make a function the handler of a kind: `@eb.handler("report")`."""

        def register(function: Code) -> Code:
            self.registry.add(FunctionHandler(kind, function))
            self._remember(function, kind)
            return function

        return register

    @overload
    def function(self, given: Code) -> Code: ...

    @overload
    def function(self, given: str) -> Callable[[Code], Code]: ...

    def function(self, given: Any) -> Any:
        """Let jobs of kind `function` call it: `@eb.function`, or with a name of your own."""

        def register(function: Code) -> Code:
            name = given if isinstance(given, str) else name_of(function)
            self._functions.add(name, function)
            if self._functions.kind not in self.registry.served:
                self.registry.add(self._functions)
            self._remember(function, self._functions.kind)
            return function

        return register if isinstance(given, str) else register(given)

    def schedule(
        self, schedule: str | dict[str, Any] | Schedule, **options: Unpack[ScheduleOptions]
    ) -> Callable[[Code], Code]:
        """Run a function on a schedule: `@eb.schedule("0 8 * * MON-FRI", tz="Europe/Berlin")`.

        A function that is no handler yet becomes the handler of a kind with its own name. The job
        is named after the function unless `name` is given. Each process that starts with this code
        adds the job, or changes it to what the code says.
        """

        def register(function: Code) -> Code:
            if id(function) not in self._kinds:
                self.handler(name_of(function))(function)
            given = options.copy()
            given.setdefault("name", name_of(function))
            kind, given["payload"] = self.call(function, options.get("payload"))
            self._declare(define(kind, schedule, **given), module_of(function))
            return function

        return register

    def call(self, what: str | Callable[..., Any], payload: Any = None) -> tuple[str, Any]:
        """The kind and the payload of a job of this kind, or of one that calls this function."""
        given: Any = {} if payload is None else as_json(payload)
        if isinstance(what, str):
            return what, given
        kind = self._kinds.get(id(what))
        if kind is None:
            name = name_of(what) or repr(what)
            raise InvalidInput("kind", f"{name} is no handler and no function of this app")
        is_named = kind == self._functions.kind
        return kind, self._functions.payload_of(what, given) if is_named else given

    def _remember(self, function: Callable[..., Any], kind: str) -> None:
        self._kinds[id(function)] = kind
        self.modules.add(module_of(function))

    def _declare(self, definition: Definition, module: str) -> None:
        name = definition.name or ""
        if name in self.declared:
            raise InvalidInput("name", f"there is a schedule {name!r} already: give each its own")
        labels = {**definition.labels, DECLARED_IN: module}
        self.declared[name] = replace(definition, labels=labels)


def module_of(function: Callable[..., Any]) -> str:
    """The function's module; for a script the name of its file, since all are `__main__`."""
    module = getattr(function, "__module__", None) or type(function).__module__
    file = getattr(sys.modules["__main__"], "__file__", None)
    return Path(file).stem if module == "__main__" and file else module
