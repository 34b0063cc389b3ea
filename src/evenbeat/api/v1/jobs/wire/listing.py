"""Lists of jobs: the query, and a page of jobs."""

import base64
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from evenbeat.api.v1.jobs.wire.job_out import JobOut
from evenbeat.api.v1.wire.text_types import Storable
from evenbeat.control.jobs.listing import JobPage
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.model import State
from evenbeat.core.limits import (
    LARGEST_OFFSET,
    LARGEST_PAGE,
    LONGEST_LABEL_VALUE,
    LONGEST_SEARCH,
    LONGEST_WORD,
)

SortField = Literal[
    "created_at",
    "updated_at",
    "status",
    "source_name",
    "next_run_at",
    "last_run_at",
    "type",
    "name",
    "priority",
]
# Only this order has cursors.
USUAL_ORDER = "created_at_desc"
# Digits of the id that a cursor holds.
LONGEST_CURSOR = 18
# name=value
LONGEST_LABEL_TEXT = LONGEST_WORD + 1 + LONGEST_LABEL_VALUE
STATUSES = sorted({state.value for state in State} - {State.BLOCKED.value})
Text = Annotated[Storable, Field(max_length=LONGEST_SEARCH)]


class ListIn(BaseModel):
    """Which jobs, in which order, and which page of them."""

    model_config = ConfigDict(extra="forbid")

    status: Annotated[str, Field(max_length=LONGEST_SEARCH)] | None = Field(
        None, description="one or several, as in `pending,failed`", examples=["failed,paused"]
    )
    state: Annotated[str, Field(max_length=LONGEST_SEARCH)] | None = Field(
        None, description="the same in our words, where `blocked` is a state of its own"
    )
    search: Text | None = Field(None, description="part of a name, kind, source_name or url")
    source_id: Text | None = None
    tag: Text | None = None
    label: Annotated[Storable, Field(max_length=LONGEST_LABEL_TEXT)] | None = Field(
        None, examples=["team=search"]
    )
    kind: Text | None = None
    group: Text | None = None
    sort_by: SortField = "created_at"
    sort_order: Literal["asc", "desc"] = "desc"
    limit: Annotated[int, Field(ge=1, le=LARGEST_PAGE)] = 50
    offset: Annotated[int, Field(ge=0, le=LARGEST_OFFSET)] = 0
    cursor: Annotated[str, Field(max_length=40)] | None = Field(
        None, description="`next_cursor` of the page before; only for created_at_desc"
    )

    def filter(self) -> Filter:
        return Filter(
            states=read_states(self.state, "state"),
            statuses=read_states(self.status, "status"),
            kinds=None if self.kind is None else frozenset([self.kind]),
            groups=None if self.group is None else frozenset([self.group]),
            labels=self._labels() or None,
            source_id=self.source_id,
            search=self.search or None,
        )

    def _labels(self) -> dict[str, str]:
        labels = {} if self.tag is None else {self.tag: ""}
        if self.label is not None:
            name, equals, value = self.label.partition("=")
            if not (name and equals):
                raise InvalidInput("label", "write it as name=value")
            labels[name] = value
        return labels

    def order(self) -> str:
        return f"{self.sort_by}_{self.sort_order}"

    def place(self) -> dict[str, Any]:
        """Where the page begins: after a cursor, or at an offset."""
        if self.cursor is None:
            return {"limit": self.limit, "offset": self.offset}
        if self.order() != USUAL_ORDER or self.offset:
            raise InvalidInput("cursor", "goes with neither sort_by, sort_order nor offset")
        return {"limit": self.limit, "older_than": read_cursor(self.cursor)}


class JobsOut(BaseModel):
    """A page of jobs."""

    jobs: list[JobOut]
    total: int
    limit: int
    offset: int
    sort_by: str
    sort_order: str
    next_cursor: str | None

    @classmethod
    def from_core(
        cls, page: JobPage, now: datetime, *, order: str, limit: int, offset: int
    ) -> Self:
        sort_by, _, sort_order = order.rpartition("_")
        has_cursor = page.older_than is not None and order == USUAL_ORDER
        return cls(
            jobs=[JobOut.from_core(job, now) for job in page.jobs],
            total=page.total,
            limit=limit,
            offset=offset,
            sort_by=sort_by,
            sort_order=sort_order,
            next_cursor=make_cursor(page.older_than) if has_cursor and page.older_than else None,
        )


def read_states(text: str | None, field: str) -> frozenset[State] | None:
    words = {word.strip() for word in (text or "").split(",")} - {""}
    return known_states(words, field) if words else None


def known_states(words: Iterable[str], field: str) -> frozenset[State]:
    choices = STATUSES if field == "status" else [state.value for state in State]
    if unknown := sorted(set(words) - set(choices)):
        raise InvalidInput(field, f"no {field} {unknown[0]!r}; there are {', '.join(choices)}")
    return frozenset(map(State, words))


def make_cursor(last_id: int) -> str:
    return base64.urlsafe_b64encode(str(last_id).encode()).decode()


def read_cursor(text: str) -> int:
    try:
        number = base64.b64decode(text.encode(), altchars=b"-_", validate=True)
    except ValueError:
        number = b""
    if not number.isdigit() or len(number) > LONGEST_CURSOR:
        raise InvalidInput("cursor", "is none of ours: send next_cursor as it came")
    return int(number)
