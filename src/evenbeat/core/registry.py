"""Which kinds there are, and the handler of each."""

from collections.abc import Iterable, Iterator

from evenbeat.core.errors import InvalidInput
from evenbeat.core.handler import Handler


class Registry:
    """The handlers of one process by kind; a kind has exactly one."""

    def __init__(self, handlers: Iterable[Handler] = ()) -> None:
        self._handlers: dict[str, Handler] = {}
        for handler in handlers:
            self.add(handler)

    def add(self, handler: Handler) -> None:
        if handler.kind in self._handlers:
            raise InvalidInput("kind", f"there is a handler for {handler.kind} already")
        self._handlers[handler.kind] = handler

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._handlers))

    def __contains__(self, kind: str) -> bool:
        return kind in self._handlers

    def __getitem__(self, kind: str) -> Handler:
        return self._handlers[kind]
