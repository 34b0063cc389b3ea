"""Which kinds there are, and the handler of each."""

import inspect
from collections.abc import Iterable, Iterator

from evenbeat.core.errors import InvalidInput
from evenbeat.core.handler import Handler


class Registry:
    """The handlers of one process by kind; a kind has exactly one."""

    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self._handlers: dict[str, Handler] = {}
        self._instant: set[str] = set()
        for handler in handlers:
            self.add(handler)

    def add(self, handler: Handler) -> None:
        if handler.kind in self._handlers:
            raise InvalidInput("kind", f"there is a handler for {handler.kind} already")
        self._handlers[handler.kind] = handler
        if not inspect.iscoroutinefunction(handler.run):
            self._instant.add(handler.kind)

    def is_instant(self, kind: str) -> bool:
        """Whether the kind's handler never waits."""
        return kind in self._instant

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._handlers))

    def __contains__(self, kind: str) -> bool:
        return kind in self._handlers

    def __getitem__(self, kind: str) -> Handler:
        return self._handlers[kind]
