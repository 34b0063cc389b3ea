"""function: calls a Python function that the app has registered; and handlers made of functions.

A coroutine function runs on the node's event loop. Any other function runs in a thread, where it
may block.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast, get_args

from evenbeat.core.errors import InvalidInput
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import DONE, Done, Failed, Outcome
from evenbeat.core.runs.secrets import check_references, holds_reference
from evenbeat.handlers.payload_fields import fields_of, raise_errors, unknown_fields
from evenbeat.handlers.typed_payloads import find_payload_type

CONTEXT = "context"
OUTCOMES = get_args(Outcome)
FIELDS = ("name", "args")


class Function:
    """The kind `function`: the payload names a registered function and its keyword arguments."""

    kind = "function"

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}

    def add(self, name: str, function: Callable[..., Any]) -> None:
        if name in self._functions:
            raise InvalidInput("name", f"there is a function {name!r} already")
        check_callable(function)
        self._functions[name] = function

    def payload_of(self, function: Callable[..., Any], arguments: Any) -> dict[str, Any]:
        """The payload of a job that calls this function."""
        name = next(name for name, known in self._functions.items() if known is function)
        return {"name": name, "args": arguments}

    def check(self, payload: Any) -> None:
        """Arguments are checked where functions are registered; other processes know none."""
        given = fields_of(payload)
        raise_errors(unknown_fields(given, FIELDS))
        name, arguments = given.get("name"), given.get("args", {})
        if not isinstance(name, str) or not name:
            raise InvalidInput("payload.name", "must be the name of a registered function")
        if not isinstance(arguments, dict):
            raise InvalidInput("payload.args", "must be an object: an argument's name and value")
        check_references(arguments, "payload.args")
        if self._functions:
            self._check_call(name, cast("dict[str, Any]", arguments))

    def _check_call(self, name: str, arguments: dict[str, Any]) -> None:
        if name not in self._functions:
            raise InvalidInput("payload.name", self._unknown(name))
        function = self._functions[name]
        if CONTEXT in arguments and takes_context(function):
            raise InvalidInput(f"payload.args.{CONTEXT}", "is given by the node")
        extra = {CONTEXT: None} if takes_context(function) else {}
        try:
            inspect.signature(function).bind(**arguments, **extra)
        except TypeError as error:
            raise InvalidInput("payload.args", f"{name}: {error}") from None

    def _unknown(self, name: str) -> str:
        return f"no function {name!r} is registered; registered: {', '.join(self._functions)}"

    async def run(self, context: RunContext) -> Outcome:
        name, arguments = context.payload["name"], context.payload.get("args", {})
        function = self._functions.get(name)
        if function is None:
            # Retried: during a rolling update another node may have it already.
            return Failed(self._unknown(name), error_type="UnknownFunction")
        filled = context.secrets.fill(arguments)
        extra = {CONTEXT: context} if takes_context(function) else {}
        called = partial(function, **filled, **extra)
        return await call(called, context, is_async=is_coroutine_function(function))


class FunctionHandler:
    """A kind whose handler is one function. The function takes the payload, the context, or both:
    a parameter named `context` gets the context, any other gets the payload as its annotated
    type."""

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        check_callable(function)
        self._kind = kind
        self._function = function
        # Asked once: inspecting a function takes longer than a run of one that does nothing.
        self._is_async = is_coroutine_function(function)
        self._takes_context = takes_context(function)
        self._payload_name = payload_parameter(function)
        self._payload_type = find_payload_type(function, self._payload_name)

    @property
    def kind(self) -> str:
        return self._kind

    def check(self, payload: Any) -> None:
        """A payload without an annotated type is checked by the function alone, when it runs."""
        check_references(payload, "payload")
        # A payload with secrets has its final value only in the run.
        if self._payload_type is not None and not holds_reference(payload):
            self._payload_type.make(payload)

    async def run(self, context: RunContext) -> Outcome:
        given: list[Any] = []
        if self._payload_name is not None:
            filled = context.secrets.fill(context.payload)
            kind = self._payload_type
            given.append(filled if kind is None else kind.make(filled))
        extra = {CONTEXT: context} if self._takes_context else {}
        called = partial(self._function, *given, **extra)
        return await call(called, context, is_async=self._is_async)


async def call(function: "partial[Any]", context: RunContext, *, is_async: bool) -> Outcome:
    """Call it on the loop or in a thread, and turn what it returns into an outcome."""
    if is_async:
        value = await function()
    else:
        value = await context.in_thread(function)
        # A decorator may have hidden an `async def`.
        if inspect.isawaitable(value):
            value = await value
    if value is None:
        return DONE
    return value if isinstance(value, OUTCOMES) else Done(result=value)


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "")


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )


def takes_context(function: Callable[..., Any]) -> bool:
    return CONTEXT in inspect.signature(function).parameters


def payload_parameter(function: Callable[..., Any]) -> str | None:
    """The one parameter besides the context; a single payload cannot fill more."""
    others = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.name != CONTEXT and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    required = [each for each in others if each.default is each.empty]
    if len(required) > 1 or any(each.kind is each.KEYWORD_ONLY for each in required):
        raise InvalidInput(
            "handler", "must take the payload, or `context`, or both, and need nothing else"
        )
    positional = [each.name for each in others if each.kind is not each.KEYWORD_ONLY]
    return positional[0] if positional else None


def check_callable(function: Callable[..., Any]) -> None:
    if not callable(function):
        raise InvalidInput("handler", f"must be a function, not {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput("handler", "must return a value, not yield: a node does not iterate")
    try:
        inspect.signature(function)
    except ValueError:
        raise InvalidInput(
            "handler", "is a built-in without a signature: wrap it in a function"
        ) from None
