"""Laws of places: whatever balancing decides, the rhythm is the one that was asked for."""

import contextlib
import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenbeat.core.balance.ring import LoadRing
from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.timetable import Timetable, TimetableBounds
from evenbeat.placement.placement_updates import decide_updates
from evenbeat.store.balance.load_map import BalancedJob, MapUpdate
from tests.core.balance.test_balance_laws import INTERVALS, WINDOWS

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NOWS = st.timedeltas(timedelta(0), timedelta(days=3650)).map(lambda passed: START + passed)
EVERY = INTERVALS.map(lambda seconds: Every(timedelta(seconds=seconds)))
NAMED = st.sampled_from(
    ["daily 06:00", "0 8 * * MON-FRI Europe/Berlin", "hourly :15", "*/5 * * * *"]
)
few = settings(max_examples=25)


def standing(number: int, timetable: Timetable, now: datetime) -> BalancedJob:
    planned = timetable.planned_at(now)
    return BalancedJob(
        job_id=number,
        uid=UUID(int=number),
        timetable=planned,
        should_count=True,
        is_undecided=False,
        counted=None,
        next_beat_at=planned.next_after(now),
        beat_at=None,
        is_fresh=True,
        is_new=True,
        is_beating=False,
        runs_so_far=0,
        cost=None,
        version=1,
        plan_version=1,
        state=b"s",
        wanted=None,
        token=None,
    )


def chosen(timetables: list[Timetable], now: datetime) -> list[MapUpdate]:
    jobs: list[BalancedJob] = []
    for number, each in enumerate(timetables):
        # A narrow window that an interval never meets is refused before it is stored.
        with contextlib.suppress(InvalidInput):
            jobs.append(standing(number, each, now))
    return decide_updates(LoadRing(now), jobs, now, may_place=True)


@few
@given(st.lists(st.tuples(EVERY, st.none() | WINDOWS), min_size=1, max_size=15), NOWS)
def test_no_interval_is_changed_and_no_first_beat_is_later_than_one_interval(
    drawn: list[tuple[Every, object]], now: datetime
) -> None:
    timetables = [Timetable(every, window=window) for every, window in drawn]  # type: ignore[arg-type]
    for placing in chosen(timetables, now):
        before, after = placing.job.timetable, placing.timetable
        assert before is not None
        if after is None:
            # Where it could be put, it would never meet its window: it stays.
            assert before.window is not None
            continue
        assert replace(after, place=None) == replace(before, place=None)
        first, schedule, window = placing.next_beat_at, after.schedule, after.window
        assert first is not None
        assert isinstance(schedule, Every)
        if window is None:
            assert now < first <= now + schedule.interval
            assert after.next_after(first) == first + schedule.interval
        else:
            assert window.is_open(first)
            opening = now if window.is_open(now) else window.next_opening(now)
            assert first <= max(opening, now) + schedule.interval


@few
@given(st.lists(NAMED, min_size=1, max_size=10), st.integers(1, 7200), NOWS)
def test_slack_puts_every_beat_off_by_as_much_and_by_no_more_than_it_is(
    schedules: list[str], within: int, now: datetime
) -> None:
    slack = timedelta(seconds=within)
    timetables = [Timetable(parse_schedule(text), within=slack) for text in schedules]
    for placing in chosen(timetables, now):
        before, after = placing.job.timetable, placing.timetable
        assert before is not None
        assert after is not None
        assert timedelta(0) <= after.delay <= slack
        named = before.next_beats(now, 5)
        assert after.next_beats(now, 5) == tuple(beat + after.delay for beat in named)


@given(EVERY, st.data(), NOWS)
def test_a_move_changes_no_beat_before_it_and_the_phase_of_all_after_it(
    every: Every, data: st.DataObject, now: datetime
) -> None:
    interval = every.interval
    phases = st.integers(0, interval // SECOND - 1).map(lambda seconds: seconds * SECOND)
    old = Timetable(every).at_phase(data.draw(phases))
    beats = old.next_beats(now, 6)
    # Not the very first: it could be moved to before now, and such a move is refused.
    until = beats[data.draw(st.integers(1, 3))]
    new = old.at_phase_from(phase := data.draw(phases), until)
    kept = [beat for beat in beats if beat < until]
    following = new.next_beats(now, 6)
    assert list(following[: len(kept)]) == kept
    later = following[len(kept) :]
    assert abs(later[0] - until) <= interval / 2 + SECOND
    assert all(b - a == interval for a, b in itertools.pairwise(later))
    assert Timetable(every).at_phase(phase).next_after(later[0] - SECOND) == later[0]
    assert new.count_between(now, following[-1]) == 6
    assert Timetable.from_object(new.to_object()) == new


@given(NAMED, st.integers(0, 1800), st.integers(0, 1800), NOWS)
def test_a_move_within_its_slack_loses_no_beat(
    text: str, before: int, after: int, now: datetime
) -> None:
    bare = Timetable(
        parse_schedule(text), within=timedelta(hours=1), bounds=TimetableBounds(starts_at=START)
    )
    old = bare.at_phase(before * SECOND)
    beats = old.next_beats(now, 4)
    new = old.at_phase_from(after * SECOND, beats[2])
    shift = (after - before) * SECOND
    # A move to before the beat that stays is refused (placement_updates.moves_one_beat).
    assume(beats[2] + shift > beats[1])
    moved = [*beats[:2], *(beat + shift for beat in beats[2:])]
    assert list(new.next_beats(now, 4)) == moved
    assert Timetable.from_object(new.to_object()) == new
