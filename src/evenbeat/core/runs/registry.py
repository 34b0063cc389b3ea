"""Which kinds there are, and the handler of each that is served here."""

import inspect
from collections.abc import Iterable, Iterator

from evenbeat.core.errors import InvalidInput
from evenbeat.core.runs.handler import Handler, Kind

# How a node comes to serve a kind that it does not serve by itself.
SWITCHES = {"program": "EVENBEAT_PROGRAMS=on"}


def describe_unserved_kind(kind: str, runs_on: Iterable[str] = ()) -> str:
    """That jobs of this kind, for nodes with these labels, wait; and what to do about it."""
    labels = ", ".join(runs_on)
    node = f"node labelled {labels}" if labels else "node"
    switch = SWITCHES.get(kind)
    start = f"start one with {switch}" if switch else "start one that does"
    return f"No live {node} serves the kind {kind}: {start}."


class Registry:
    """The kinds one process knows; each has at most one handler.

    Jobs of a kind that is known and not served can be added: they wait for a node that serves it.
    """

    def __init__(self, handlers: Iterable[Handler] = (), known: Iterable[Kind] = ()) -> None:
        # Read by those who validate jobs; changed only by `add`.
        self.kinds: dict[str, Kind] = {each.kind: each for each in known}
        self._handlers: dict[str, Handler] = {}
        self._instant: set[str] = set()
        # Of a kind whose handler says so (`most_at_once`), a node runs no more than that.
        self.limits: dict[str, int] = {}
        for handler in handlers:
            self.add(handler)

    def add(self, handler: Handler) -> None:
        """Serve a kind; before a node starts, since it then says what it serves."""
        if handler.kind in self._handlers:
            raise InvalidInput("kind", f"there is a handler for {handler.kind} already")
        self.kinds[handler.kind] = handler
        self._handlers[handler.kind] = handler
        if not inspect.iscoroutinefunction(handler.run):
            self._instant.add(handler.kind)
        most_at_once: int | None = getattr(handler, "most_at_once", None)
        if most_at_once is not None:
            self.limits[handler.kind] = most_at_once

    @property
    def served(self) -> list[str]:
        """The kinds that have a handler here."""
        return sorted(self._handlers)

    def handler(self, kind: str) -> Handler:
        return self._handlers[kind]

    def is_instant(self, kind: str) -> bool:
        """Whether the kind's handler never waits."""
        return kind in self._instant

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.kinds))

    def __contains__(self, kind: str) -> bool:
        return kind in self.kinds

    def __getitem__(self, kind: str) -> Kind:
        return self.kinds[kind]
