"""Lists jobs: filtered, sorted, one page at a time."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from evenbeat.core.jobs.filters import EVERYTHING, Filter
from evenbeat.core.jobs.model import Job, State
from evenbeat.store.database.codes import CODE_OF_STATE, STATES
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements, load_variants
from evenbeat.store.jobs.jobs import decode_row, job_from

SQL = load_statements("jobs/listing")
PAGES = load_variants("jobs/listing", "page", "order")


async def find_matching_uids(session: Session, chosen: Filter, *, limit: int) -> list[UUID]:
    """The jobs that match the filter, in the order of their ids."""
    rows = await session.fetch(SQL["matching"], **job_filter_parameters(chosen), limit=limit)
    return [row["uid"] for row in rows]


async def list_jobs(
    session: Session,
    chosen: Filter,
    *,
    order: str,
    limit: int,
    offset: int = 0,
    before: int | None = None,
) -> list[Job]:
    """One page of the jobs that match; with `before`, only those with a smaller key."""
    rows = await session.fetch(
        PAGES[order], limit=limit, offset=offset, **job_filter_parameters(chosen, before)
    )
    return [job_from(decode_row(row)) for row in rows]


async def count_jobs(session: Session, chosen: Filter) -> int:
    if chosen.is_everything:
        return await session.fetch_value(SQL["count_all"])
    return await session.fetch_value(SQL["count"], **job_filter_parameters(chosen))


async def count_by_status(session: Session, chosen: Filter = EVERYTHING) -> dict[State, int]:
    """How many jobs there are of each status, in the interval scheduler's sense."""
    rows = await session.fetch(SQL["status_counts"], **job_filter_parameters(chosen))
    return {STATES[row["status"]]: row["count"] for row in rows}


def job_filter_parameters(chosen: Filter, before: int | None = None) -> dict[str, Any]:
    return {
        "uids": as_list(chosen.uids),
        "states": state_codes(chosen.states),
        "statuses": state_codes(chosen.statuses),
        "kinds": as_list(chosen.kinds),
        "groups": as_list(chosen.groups),
        "labels": None if chosen.labels is None else dict(chosen.labels),
        "source_id": chosen.source_id,
        "search": None if chosen.search is None else like_pattern(chosen.search),
        "before": before,
    }


def state_codes(states: Collection[State] | None) -> list[bytes] | None:
    return None if states is None else [CODE_OF_STATE[state] for state in states]


def as_list(values: Collection[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def like_pattern(text: str) -> str:
    """A pattern for this text anywhere, with LIKE's own characters escaped."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
