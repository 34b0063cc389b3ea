"""What becomes of beats that were not run in time: which are run late, and which are missed."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from evenbeat.core.jobs.model import CatchUp, Cause, Claimed, Policy, RunState
from evenbeat.core.limits import MAX_BEATS
from evenbeat.core.time.timetable import Timetable

# A claim may wait for a poll (10 s at most), a free place and a busy database. Only a beat that
# waited longer than all of these counts as one that no node was there for.
OVERDUE = timedelta(minutes=1)
# Counting the beats of a cron takes some 100 us each, and the node waits for it.
MOST_COUNTED = 1000
# What one action on many jobs may count in all, about a second's worth, and at least of each job.
COUNTED_AT_ONCE = 10_000
LEAST_COUNTED = 10
# Compared in every run: a global is faster than an attribute of the enumeration.
MANUAL, RETRY, SKIPPED = Cause.MANUAL, Cause.RETRY, RunState.SKIPPED

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class MissedBeats:
    """Beats that will not be run, from the first to the last, both included."""

    count: int
    first_at: datetime
    until_at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class PassedBeats:
    """The beats of a timetable in (after, until]: they will not be run, and are not counted yet."""

    timetable: Timetable
    after: datetime
    until: datetime
    reason: str

    def count(self, limit: int = MOST_COUNTED) -> MissedBeats | None:
        """These beats as one row; None: there are none."""
        return find_missed_beats(self.timetable, self.after, self.until, self.reason, limit)


def find_count_limit(job_count: int) -> int:
    """How many beats of each job are counted at most when one action passes beats of many jobs."""
    return max(LEAST_COUNTED, min(MOST_COUNTED, COUNTED_AT_ONCE // max(job_count, 1)))


def find_next_beat(
    claimed: Claimed, run_state: RunState, now: datetime
) -> tuple[datetime | None, MissedBeats | None]:
    """The next beat of a recurring job whose beat is settled, and the beats passed over."""
    timetable = claimed.definition.timetable
    if claimed.run.cause is MANUAL:
        return timetable.next_after(now, claimed.runs_so_far), None
    runs = claimed.runs_so_far + (run_state is not SKIPPED)
    after = _settled_until(claimed)
    following = timetable.next_after(after, runs)
    if following is None or following > now:
        return following, None
    floor = _skip_until(claimed, run_state, after, now)
    if following > floor:
        return following, None
    reason = _reason(claimed, run_state, following)
    missed = find_missed_beats(timetable, after, floor, reason)
    return timetable.next_after(floor, runs), missed


def find_missed_beats(
    timetable: Timetable,
    after: datetime,
    until: datetime,
    reason: str,
    limit: int = MOST_COUNTED,
) -> MissedBeats | None:
    """The beats in (after, until] as one row. Those of a cron are counted up to `limit`."""
    timetable = _without_max_runs(timetable)
    first_at, until_at = timetable.next_after(after), timetable.latest_between(after, until)
    if first_at is None or until_at is None:
        return None
    beats = timetable.beats_between(after, until, 1)
    if not beats.is_exact:
        beats = timetable.beats_between(after, until, limit)
    suffix = "" if beats.is_exact else f"; there are more than the {beats.total} counted"
    return MissedBeats(beats.total, first_at, until_at, reason + suffix)


def _settled_until(claimed: Claimed) -> datetime:
    """The instant up to which every beat is accounted for once this one is settled."""
    cursor = claimed.next_beat_at
    beat_at = claimed.run.beat_at or cursor or claimed.run.started_at
    # A cursor ahead of the beat was set by an edit: the beats until then are not of this plan.
    return beat_at if cursor is None or cursor <= beat_at else cursor - _INSTANT


def _skip_until(claimed: Claimed, run_state: RunState, after: datetime, now: datetime) -> datetime:
    """The instant up to which beats are passed over."""
    policy = claimed.definition.policy
    floor = after if policy.catch_up is CatchUp.ALL else now
    if run_state is RunState.SKIPPED and (tolerance := _tolerance(policy)) is not None:
        # That this beat was too late says nothing of a later one that is still in time.
        floor = now - tolerance - _INSTANT
    if policy.catch_up is CatchUp.ALL:
        timetable = _without_max_runs(claimed.definition.timetable)
        floor = _floor_of_newest(timetable, floor, now, policy.catch_up_cap)
    return floor


def _tolerance(policy: Policy) -> timedelta | None:
    """How late a beat may be and still be run; None: as late as it likes."""
    limits = [policy.start_deadline, OVERDUE if policy.catch_up is CatchUp.NONE else None]
    return min((limit for limit in limits if limit is not None), default=None)


def _floor_of_newest(timetable: Timetable, floor: datetime, now: datetime, cap: int) -> datetime:
    """The instant after which only the `cap` newest of the beats until now lie."""
    cap = min(max(cap, 1), MAX_BEATS // 2)
    beats = timetable.beats_between(floor, now, 2 * cap)
    if beats.total <= cap:
        return floor
    # A timetable looks forward only: go back by halves from now, until all that follows fits.
    low, high, start = floor, now, floor
    while len(beats.instants) < beats.total or beats.total < cap:
        if beats.total < cap:
            high = start
        else:
            low = start
        start = low + (high - low) / 2
        beats = timetable.beats_between(start, now, 2 * cap)
    return beats.instants[-cap - 1] if beats.total > cap else start


def _without_max_runs(timetable: Timetable) -> Timetable:
    """The same beats without `max_runs`: beats that are passed over are not runs."""
    if timetable.bounds.max_runs is None:
        return timetable
    return replace(timetable, bounds=replace(timetable.bounds, max_runs=None))


def _reason(claimed: Claimed, run_state: RunState, first_at: datetime) -> str:
    policy, run = claimed.definition.policy, claimed.run
    if policy.catch_up is CatchUp.ALL and run_state is not RunState.SKIPPED:
        return f"more than {policy.catch_up_cap} beats behind (catch_up_cap): the oldest go"
    if run_state is RunState.SKIPPED:
        return "too late, like the beat before"
    if first_at > run.started_at:
        return f"the run before, number {run.number}, was still going"
    if policy.catch_up is CatchUp.NONE:
        return "no node was there to run it, and catch_up is none"
    if run_state is RunState.COMPLETED:
        return f"made up by the run before, number {run.number}"
    return f"the beat before was still being tried, last by run number {run.number}"
