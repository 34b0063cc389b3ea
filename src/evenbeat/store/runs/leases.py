"""Leases: claiming due jobs, and finding the runs that a node holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from evenbeat.core.jobs.model import (
    Cause,
    Claimed,
    Definition,
    HeldRun,
    OpenRun,
    UnrunnableClaim,
)
from evenbeat.store.database.codes import CAUSES
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.jobs.jobs import DefinitionCache, UnreadableDefinition

SQL = load_statements("runs/leases")
# Compared for every run: a look-up in the enumeration takes longer than the comparison.
MANUAL = Cause.MANUAL
# By lane: the turn from which on to read.
Turns = Mapping[int, datetime]


@dataclass(frozen=True, slots=True)
class NextDue:
    """How long until a job is due, without a group and in one; None: not soon.

    `lane_count` tells a node of new lanes. The newest id would not do: a lane that commits later
    may have a smaller one.
    """

    ungrouped_in: timedelta | None
    grouped_in: timedelta | None
    lane_count: int

    def waits(self) -> list[timedelta]:
        return [wait for wait in (self.ungrouped_in, self.grouped_in) if wait is not None]


class ClaimFunction(Protocol):
    """The signature of `claim_due` and `claim_grouped`."""

    async def __call__(
        self,
        database: Database,
        node_id: int,
        *,
        token: int,
        places: Mapping[int, int],
        definitions: DefinitionCache,
        since: Turns | None = None,
    ) -> list[HeldRun]: ...


async def claim_due(
    database: Database,
    node_id: int,
    *,
    token: int,
    places: Mapping[int, int],
    definitions: DefinitionCache,
    since: Turns | None = None,
) -> list[HeldRun]:
    """Claim due jobs that are in no group: at most so many of each lane, from a turn on."""
    rows = await database.fetch(
        SQL["claim_due"],
        node_id=node_id,
        token=token,
        lane_ids=list(places),
        places=list(places.values()),
        since=[(since or {}).get(lane) for lane in places],
    )
    return await with_definitions(database, rows, definitions)


async def claim_grouped(
    database: Database,
    node_id: int,
    *,
    token: int,
    places: Mapping[int, int],
    definitions: DefinitionCache,
    since: Turns | None = None,
) -> list[HeldRun]:
    """Claim due jobs of groups with room, and park those for which there is none.

    `since` is ignored: jobs that were parked come back with an early turn.
    """
    lanes, most = list(places), sum(places.values())
    # Reading a few more jobs than can be claimed parks those of full groups.
    look = most + 100
    async with database.transaction() as session:
        groups = await session.fetch(SQL["lock_groups"], lane_ids=lanes, look=look)
        if not groups:
            return []
        rows = await session.fetch(
            SQL["claim_grouped"],
            node_id=node_id,
            token=token,
            lane_ids=lanes,
            look=look,
            places=most,
            group_ids=[row["id"] for row in groups],
        )
    return await with_definitions(database, rows, definitions)


async def list_node_runs(session: Session, node_id: int) -> list[HeldRun]:
    """The runs that a node holds, or held when it died."""
    rows = await session.fetch(SQL["node_runs"], node_id=node_id)
    return await with_definitions(session, rows, DefinitionCache())


async def list_leased_runs(session: Session, job_ids: Sequence[int]) -> list[HeldRun]:
    """The open runs of these jobs, on whatever node."""
    rows = await session.fetch(SQL["leased"], job_ids=list(job_ids))
    return await with_definitions(session, rows, DefinitionCache())


async def find_next_due(
    session: Session, lane_ids: Sequence[int], *, horizon: timedelta, since: Turns | None = None
) -> NextDue:
    row = await session.fetch_row(
        SQL["next_due"],
        lane_ids=list(lane_ids),
        since=[(since or {}).get(lane) for lane in lane_ids],
        horizon=horizon,
    )
    ungrouped, grouped, lane_count = row or (None, None, 0)
    return NextDue(in_seconds(ungrouped), in_seconds(grouped), lane_count)


def in_seconds(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


async def tuck_runs(session: Session, held: Sequence[HeldRun]) -> None:
    """Take runs that take long out of the index that claims read."""
    ordered = sorted(held, key=lambda each: each.id)
    await session.execute(
        SQL["tuck"],
        job_ids=[each.id for each in ordered],
        tokens=[each.run.token for each in ordered],
    )


async def find_unwanted_runs(session: Session, node_id: int) -> set[int]:
    """The runs of this node that a person wants stopped."""
    return {row["run_id"] for row in await session.fetch(SQL["unwanted"], node_id=node_id)}


async def find_lost_leases(session: Session, held: Sequence[HeldRun]) -> set[int]:
    """Which of these runs this node has lost the lease of."""
    rows = await session.fetch(
        SQL["lost_leases"],
        job_ids=[each.id for each in held],
        tokens=[each.run.token for each in held],
        run_ids=[each.run.id for each in held],
    )
    return {row["run_id"] for row in rows}


async def with_definitions(
    session: Session, rows: list[Any], definitions: DefinitionCache
) -> list[HeldRun]:
    if not rows:
        return []
    known = await definitions.load_definitions(session, {row[0]: (row[1], row[2]) for row in rows})
    return [held_from(row, known[row[0]]) for row in rows]


def held_from(row: Any, known: tuple[UUID, Definition] | UnreadableDefinition) -> HeldRun:
    """A run from a row of a claim. Columns are read by position: by name takes twice as long."""
    # fmt: off
    (
        job_id, _, plan_version, token, run_id, number, code, other_beat_at, is_next_beat,
        attempt, manual_attempt, started_at, next_beat_at, lane_id, beats, failures, losses,
        *turn,
    ) = row
    # fmt: on
    cause = CAUSES[code]
    if cause is MANUAL:
        run = OpenRun(run_id, number, cause, None, manual_attempt, started_at, token)
    else:
        beat_at = next_beat_at if is_next_beat else other_beat_at
        run = OpenRun(run_id, number, cause, beat_at, attempt, started_at, token)
    turn_at = (turn[0] or next_beat_at) if turn else None
    if isinstance(known, UnreadableDefinition):
        return UnrunnableClaim(job_id, known.uid, run, plan_version, known.error, lane_id, turn_at)
    uid, definition = known
    return Claimed(
        job_id,
        uid,
        definition,
        run,
        next_beat_at,
        plan_version,
        beats,
        failures,
        losses,
        lane_id,
        turn_at,
    )
