"""What counting costs: a run, in a batch of a few or many kinds, and a scrape of all of it."""

import sys
import timeit
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from prometheus_client import CollectorRegistry, Histogram

from evenbeat.core.jobs.model import Cause, Claimed, Definition, OpenRun, RunState, State
from evenbeat.core.runs.settle import SettledRun, Verdict
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.engine.runs.recorder import LARGEST_BATCH
from evenbeat.observe.metrics import MOST_KINDS, Metrics
from evenbeat.observe.run_reports import count_outcomes

ROUNDS = 50
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def ended(number: int, kinds: int) -> SettledRun:
    definition = Definition(f"kind {number % kinds}", Timetable(parse_schedule("every 1h")))
    beat_at = NOW - timedelta(milliseconds=number * 37 % 500)
    run = OpenRun(number, 1, Cause.SCHEDULE, beat_at, 1, started_at=NOW, token=1)
    claimed = Claimed(number, uuid4(), definition, run, NOW, plan_version=1, runs_so_far=1)
    verdict = Verdict(RunState.COMPLETED, State.SCHEDULED, moves_cursor=True, next_beat_at=NOW)
    return SettledRun(claimed, verdict, timedelta(microseconds=number * 7919 % 100_000))


def microseconds(kinds: int) -> float:
    """A run, in a batch of so many kinds; the best of many rounds, since others use the machine."""
    metrics = Metrics()
    batch = [ended(number, kinds) for number in range(LARGEST_BATCH)]
    ids = frozenset(range(LARGEST_BATCH))
    best = min(timeit.repeat(lambda: count_outcomes(metrics, batch, ids), number=1, repeat=ROUNDS))
    return best / LARGEST_BATCH * 1e6


def one_by_one() -> float:
    plain = Histogram("plain", "For comparison.", ["kind"], registry=CollectorRegistry())
    observe = plain.labels("work").observe
    return min(timeit.repeat(lambda: observe(0.1), number=1000, repeat=ROUNDS)) * 1e3


def scrape() -> float:
    metrics = Metrics()
    batch = [ended(number, MOST_KINDS) for number in range(LARGEST_BATCH)]
    count_outcomes(metrics, batch, frozenset(range(LARGEST_BATCH)))
    return min(timeit.repeat(lambda: metrics.text(""), number=1, repeat=10)) * 1e3


def main() -> None:
    for kinds in (1, 5, 50):
        print(f"{f'us a run, batch of {kinds} kinds':58} {microseconds(kinds):12,.2f}")
    print(f"{'us for one value of an ordinary histogram':58} {one_by_one():12,.2f}")
    print(f"{f'ms for a scrape with {MOST_KINDS} kinds':58} {scrape():12,.2f}")


if __name__ == "__main__":
    main()
