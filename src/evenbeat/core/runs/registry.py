"""Which kinds there are, and the handler of each that is served here."""

from collections.abc import Iterable, Iterator

from evenbeat.core.errors import InvalidInput
from evenbeat.core.runs.handler import Handler, Kind

# The setting that makes a node serve a kind that it does not serve by default.
SWITCHES = {"program": "EVENBEAT_PROGRAMS=on"}


def describe_unserved_kind(kind: str, runs_on: Iterable[str] = ()) -> str:
    """Says that jobs of this kind, for nodes with these labels, wait, and what to do about it."""
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
        # The handler of each kind that is served here.
        self.handlers: dict[str, Handler] = {}
        # How many runs of a kind a node has at most at once, where its handler says that.
        self.limits: dict[str, int] = {}
        for handler in handlers:
            self.add(handler)

    def add(self, handler: Handler) -> None:
        """Serve a kind. Call this before a node starts: it then writes down what it serves."""
        if handler.kind in self.handlers:
            raise InvalidInput("kind", f"there is a handler for {handler.kind} already")
        self.kinds[handler.kind] = handler
        self.handlers[handler.kind] = handler
        most_at_once: int | None = getattr(handler, "most_at_once", None)
        if most_at_once is not None:
            self.limits[handler.kind] = most_at_once

    @property
    def served(self) -> list[str]:
        """The kinds that have a handler here."""
        return sorted(self.handlers)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.kinds))

    def __contains__(self, kind: str) -> bool:
        return kind in self.kinds

    def __getitem__(self, kind: str) -> Kind:
        return self.kinds[kind]
