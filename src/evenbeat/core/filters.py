"""Which jobs are meant: what people choose them by."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from evenbeat.core.model import State
from evenbeat.core.payload import check_text


@dataclass(frozen=True, slots=True)
class Filter:
    """Every condition that is given must hold; none given means every job that is not deleted.

    `labels` are those that a job must carry, `search` is found in its name in either case.
    """

    uids: frozenset[UUID] | None = None
    states: frozenset[State] | None = None
    kinds: frozenset[str] | None = None
    groups: frozenset[str] | None = None
    labels: Mapping[str, str] | None = None
    search: str | None = None

    def __post_init__(self) -> None:
        texts = {
            "kind": self.kinds or (),
            "group": self.groups or (),
            "labels": [part for pair in (self.labels or {}).items() for part in pair],
            "search": [self.search] if self.search is not None else (),
        }
        for field, values in texts.items():
            for text in values:
                check_text(text, field)

    @classmethod
    def one(cls, uid: UUID) -> "Filter":
        return cls(uids=frozenset([uid]))
