"""Leases: claiming due jobs, writing how their runs ended, finding the runs of the dead."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from evenbeat.core.model import Cause, Claimed, Definition, OpenRun, RunState, State
from evenbeat.core.settle import Verdict
from evenbeat.core.signatures import signature_of
from evenbeat.core.values import value
from evenbeat.store.codes import CAUSES, CODE_OF_RUN_STATE, CODE_OF_STATE
from evenbeat.store.database import Database, Session
from evenbeat.store.jobs import Definitions, Unreadable
from evenbeat.store.route import Json
from evenbeat.store.statements import load

SQL = load("leases")
MILLISECOND = timedelta(milliseconds=1)
# What is asked for every run is not looked up in its enumeration every time.
MANUAL, SCHEDULED, COMPLETED = Cause.MANUAL, State.SCHEDULED, RunState.COMPLETED
# By lane: from which turn on to look.
Turns = Mapping[int, datetime]


@dataclass(frozen=True, slots=True)
class Broken:
    """A job that was claimed and cannot be run: its definition makes no sense to this version."""

    id: int
    uid: UUID | None
    run: OpenRun
    plan_version: int
    error: str
    lane_id: int = 0
    turn_at: datetime | None = field(default=None, compare=False)


Held = Claimed | Broken


@value
class Settled:
    """A run that has ended, and what follows from it."""

    claimed: Held
    verdict: Verdict
    duration: timedelta | None


@dataclass(frozen=True, slots=True)
class Written:
    """Which runs were ours to end, and the groups in which a place came free."""

    run_ids: frozenset[int]
    group_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class NextDue:
    """How long until something is due, without a group and in one; None: not soon.

    Along with it comes how many lanes there are: one more is one that a node may have to serve.
    Not the newest, since one that commits later may be older.
    """

    ungrouped_in: timedelta | None
    grouped_in: timedelta | None
    lane_count: int

    def waits(self) -> list[timedelta]:
        return [wait for wait in (self.ungrouped_in, self.grouped_in) if wait is not None]


class Claim(Protocol):
    """How `claim_due` and `claim_grouped` are called."""

    async def __call__(
        self,
        database: Database,
        node_id: int,
        *,
        token: int,
        places: Mapping[int, int],
        definitions: Definitions,
        since: Turns | None = None,
    ) -> list[Held]: ...


async def claim_due(
    database: Database,
    node_id: int,
    *,
    token: int,
    places: Mapping[int, int],
    definitions: Definitions,
    since: Turns | None = None,
) -> list[Held]:
    """Take due jobs that are in no group: at most so many of each lane, from a turn on."""
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
    definitions: Definitions,
    since: Turns | None = None,
) -> list[Held]:
    """Take due jobs of groups with room, and park those for which there is none.

    Of any turn, whatever is said: those that were parked come back with an old one.
    """
    lanes, most = list(places), sum(places.values())
    # Looking at a few more than there are places parks those that stand in the way.
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


async def in_hand(session: Session, node_id: int) -> list[Held]:
    """What a node has in hand, or had when it died."""
    rows = await session.fetch(SQL["in_hand"], node_id=node_id)
    return await with_definitions(session, rows, Definitions())


async def leased(session: Session, job_ids: Sequence[int]) -> list[Held]:
    """The runs that these jobs have in hand, on whatever node."""
    rows = await session.fetch(SQL["leased"], job_ids=list(job_ids))
    return await with_definitions(session, rows, Definitions())


async def next_due(
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


async def tuck(session: Session, held: Sequence[Held]) -> None:
    """Put runs that take long out of the way of claims."""
    ordered = sorted(held, key=lambda each: each.id)
    await session.execute(
        SQL["tuck"],
        job_ids=[each.id for each in ordered],
        tokens=[each.run.token for each in ordered],
    )


async def unwanted(session: Session, node_id: int) -> set[int]:
    """The runs of this node that somebody wants stopped."""
    return {row["run_id"] for row in await session.fetch(SQL["unwanted"], node_id=node_id)}


async def taken(session: Session, held: Sequence[Held]) -> set[int]:
    """Which of these runs are not ours any more."""
    rows = await session.fetch(
        SQL["taken"],
        job_ids=[each.id for each in held],
        tokens=[each.run.token for each in held],
        run_ids=[each.run.id for each in held],
    )
    return {row["run_id"] for row in rows}


async def complete(session: Session, batch: Sequence[Settled]) -> Written:
    """Write how these runs ended."""
    ordered = sorted(batch, key=lambda settled: settled.claimed.id)
    row = await session.fetch_row(SQL["complete"], **arrays(ordered))
    return Written(*(frozenset((row and row[name]) or ()) for name in ("run_ids", "group_ids")))


async def unlocked(session: Session, job_ids: Sequence[int]) -> set[int]:
    """Which of these jobs nobody holds in an open transaction."""
    rows = await session.fetch(SQL["unlocked"], job_ids=list(job_ids))
    return {row["id"] for row in rows}


async def already_written(session: Session, batch: Sequence[Settled]) -> frozenset[int]:
    """Which of these runs have ended in just this way: by us, that is, and not by a reaper."""
    rows = await session.fetch(SQL["ends"], run_ids=[each.claimed.run.id for each in batch])
    ends = {(row["id"], row["job_id"], row["state"], row["error_class"]) for row in rows}
    return frozenset(each.claimed.run.id for each in batch if end_of(each) in ends)


def end_of(settled: Settled) -> tuple[int, int, bytes, str | None]:
    held, verdict = settled.claimed, settled.verdict
    return held.run.id, held.id, CODE_OF_RUN_STATE[verdict.run_state], verdict.error_class


async def with_definitions(
    session: Session, rows: list[Any], definitions: Definitions
) -> list[Held]:
    if not rows:
        return []
    known = await definitions.of(session, {row[0]: (row[1], row[2]) for row in rows})
    return [held_from(row, known[row[0]]) for row in rows]


def held_from(row: Any, known: tuple[UUID, Definition] | Unreadable) -> Held:
    """From a row of a claim, by the places of its columns: by name, it takes twice as long."""
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
    if isinstance(known, Unreadable):
        return Broken(job_id, known.uid, run, plan_version, known.error, lane_id, turn_at)
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


def arrays(batch: Sequence[Settled]) -> dict[str, list[Any]]:
    """The batch as the columns that the statement unnests; what is as usual is left out."""
    held = [settled.claimed for settled in batch]
    verdicts = [settled.verdict for settled in batch]
    usual: dict[str, list[Any]] = {
        "job_ids": [each.id for each in held],
        "tokens": [each.run.token for each in held],
        "duration_ms": [in_milliseconds(settled.duration) for settled in batch],
        "plan_versions": [each.plan_version for each in held],
        "next_beats": [each.next_beat_at for each in verdicts],
    }
    if all(map(is_usual, held, verdicts)):
        return NOTHING_UNUSUAL | usual
    return unusual(held, verdicts) | usual


def in_milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // MILLISECOND


def is_usual(held: Held, verdict: Verdict) -> bool:
    """A beat of a recurring job, done at the first attempt and with nothing to tell."""
    return (
        verdict.state is SCHEDULED
        and verdict.run_state is COMPLETED
        and verdict.moves_cursor
        and verdict.missed is None
        and verdict.result is None
        and not verdict.items_crawled
        and not verdict.items_indexed
        and held.run.cause is not MANUAL
    )


def unusual(held: Sequence[Held], verdicts: Sequence[Verdict]) -> dict[str, list[Any]]:
    """The columns that a batch of the usual sort leaves empty."""
    missed = [verdict.missed for verdict in verdicts]
    return {
        "attempts": sparse(map(uncounted, held, verdicts)),
        "attempts_used": sparse(
            verdict.attempts_used if uncounted(each, verdict) is not None else None
            for each, verdict in zip(held, verdicts, strict=True)
        ),
        "moves_cursor": sparse(None if each.moves_cursor else False for each in verdicts),
        "run_states": [CODE_OF_RUN_STATE[state] for state in unusual_run_states(verdicts)],
        "job_states": [CODE_OF_STATE[state] for state in unusual_states(verdicts)],
        "retries": sparse(each.retry_at for each in verdicts),
        "failure_streaks": sparse(each.failure_streak or None for each in verdicts),
        "lost_streaks": sparse(each.lost_streak or None for each in verdicts),
        "error_classes": sparse(each.error_class for each in verdicts),
        "errors": sparse(each.error for each in verdicts),
        "stack_traces": sparse(each.stack_trace for each in verdicts),
        "results": sparse(None if each.result is None else Json(each.result) for each in verdicts),
        "items_crawled": sparse(each.items_crawled or None for each in verdicts),
        "items_indexed": sparse(each.items_indexed or None for each in verdicts),
        "reasons": sparse(each.reason for each in verdicts),
        "signatures": sparse(
            signature_of(each.error, each.error_class) if each.is_dead else None
            for each in verdicts
        ),
        "missed_counts": sparse(each and each.count for each in missed),
        "missed_from": sparse(each and each.first_at for each in missed),
        "missed_until": sparse(each and each.until_at for each in missed),
        "missed_reasons": sparse(each and each.reason for each in missed),
    }


def uncounted(held: Held, verdict: Verdict) -> int | None:
    """The attempt this run was, where the pulse will not know it any more: one that does not
    count, or one by hand."""
    run = held.run
    is_usual = run.cause is not Cause.MANUAL and verdict.attempts_used == run.attempt
    return None if is_usual else run.attempt


def sparse(values: Iterable[Any]) -> list[Any]:
    """These values, or none at all where each is None: unnest pads with nulls."""
    made = list(values)
    return [] if made.count(None) == len(made) else made


def unusual_run_states(verdicts: Sequence[Verdict]) -> list[RunState]:
    states = [verdict.run_state for verdict in verdicts]
    return [] if all(state is RunState.COMPLETED for state in states) else states


def unusual_states(verdicts: Sequence[Verdict]) -> list[State]:
    states = [verdict.state for verdict in verdicts]
    return [] if all(state is State.SCHEDULED for state in states) else states


NOTHING_UNUSUAL: dict[str, list[Any]] = {name: [] for name in unusual((), ())}
