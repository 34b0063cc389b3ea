"""Filters: the conditions by which people choose jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from evenbeat.core.jobs.model import State
from evenbeat.core.jobs.payload import check_text


@dataclass(frozen=True, slots=True)
class Filter:
    """Every condition that is given must hold; none given means every job that is not deleted.

    `states` are ours; `statuses` are the states by the interval scheduler's count, where a blocked
    job waits and one that is to be run by hand is pending. `labels` are those that a job must
    carry, `search` is found in its name, kind, source or address in either case.
    """

    uids: frozenset[UUID] | None = None
    states: frozenset[State] | None = None
    statuses: frozenset[State] | None = None
    kinds: frozenset[str] | None = None
    groups: frozenset[str] | None = None
    labels: Mapping[str, str] | None = None
    source_id: str | None = None
    search: str | None = None

    def __post_init__(self) -> None:
        texts = {
            "kind": self.kinds or (),
            "group": self.groups or (),
            "labels": [part for pair in (self.labels or {}).items() for part in pair],
            "source_id": [self.source_id] if self.source_id is not None else (),
            "search": [self.search] if self.search is not None else (),
        }
        for field, values in texts.items():
            for text in values:
                check_text(text, field)

    @classmethod
    def one(cls, uid: UUID) -> "Filter":
        return cls(uids=frozenset([uid]))

    @property
    def is_everything(self) -> bool:
        return self == EVERYTHING


EVERYTHING = Filter()
