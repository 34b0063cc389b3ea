"""From the API to the last run, with real processes: a day that is even, and a kill in between."""

import itertools
import math
import signal
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx2 as httpx
import pytest

from evenbeat.store.database.pool import Database
from tests.contracts.balancing.client import SCHEDULER, Client, Json, token
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.waiting import eventually

# How many jobs there are of each interval, in hours: 1,300 runs a day.
FLEET = {6: 200, 12: 200, 24: 100}
DAY = timedelta(days=1)
BEATS = """
    select beat_at from evenbeat.run join evenbeat.job on job.id = run.job_id
    where job.uid = $1 order by run.number
"""


async def rows(database: Database, query: str, *given: Any) -> list[Any]:
    async with database.connection() as connection:
        return await connection.fetch(query, *given)


async def settle(database: Database, clock: Clock) -> None:
    """Wait until nothing is due and nothing runs."""
    busy = "select from evenbeat.pulse where token is not null or due_at <= $1 limit 1"

    async def is_quiet() -> bool:
        return not await rows(database, busy, clock.now)

    await eventually(is_quiet, "everything that is due has run")


async def test_five_hundred_jobs_created_at_once_run_evenly_for_a_day(
    start: Callable[..., Process], database: Database, clock: Clock
) -> None:
    process = start("up")
    client = Client(await process.ready(), token())
    jobs = [
        {"kind": "echo", "schedule": f"every {hours}h"}
        for hours, count in FLEET.items()
        for _ in range(count)
    ]
    answer = await client.post("/api/v1/jobs/batch", {"jobs": jobs})
    assert answer.status_code == 201, answer.text
    began = clock.now
    assert (await client.distribution())["distribution_score"] > 0.97
    for _ in range(24):
        await clock.advance(hours=1)
        await settle(database, clock)
    runs = await rows(
        database,
        "select job_id, beat_at, state from evenbeat.run where beat_at > $1 and beat_at <= $2",
        began,
        began + DAY,
    )
    expected = sum(count * 24 // hours for hours, count in FLEET.items())
    assert len(runs) == expected, "every job at its own rate"
    assert {row["state"] for row in runs} == {b"c"}
    # Whole slots: the first and the last of the day are cut by its beginning.
    slots = Counter(int(row["beat_at"].timestamp()) // 900 for row in runs)
    inner = [slots[slot] for slot in range(min(slots) + 1, max(slots))]
    mean = expected / 96
    assert max(inner) <= math.ceil(mean) + 1
    assert min(inner) >= math.floor(mean) - 1
    minutes = Counter(int(row["beat_at"].timestamp()) // 60 for row in runs)
    assert max(minutes.values()) <= 3
    assert max(Counter(row["beat_at"] for row in runs).values()) == 1, "no two in one second"
    await client.http.aclose()
    process.kill()


async def test_a_rebalance_and_its_undo_keep_the_rate_of_working_jobs(
    start: Callable[..., Process], server: Callable[[str], Any], database: Database, clock: Clock
) -> None:
    """Every run is one interval after the last, but for two that shift by half of it at most."""
    process = start("up", EVENBEAT_BALANCING="observe")
    working, client = Client(await process.ready(), token()), await server("on")
    await working.remove_all()
    herd = await working.at_once(6, 40)
    began = clock.now
    assert (await client.rebalance())["moved"]
    await work_for(database, clock, hours=5)
    undone = await client.http.post(f"{SCHEDULER}/rebalance/undo")
    assert len(undone.json()["moved"]) > 3, undone.text
    await work_for(database, clock, hours=5)
    interval = timedelta(minutes=40)
    for job in herd:
        beats = [row["beat_at"] for row in await rows(database, BEATS, job["id"])]
        gaps = [later - earlier for earlier, later in itertools.pairwise([began, *beats])]
        shifts = [gap - interval for gap in gaps if gap != interval]
        assert len(shifts) in (0, 2)
        assert not sum(shifts, timedelta(0)) % interval, "back at its phase"
        assert all(abs(shift) <= interval / 2 for shift in shifts)
    await working.http.aclose()
    process.kill()


async def test_a_running_job_stays_where_it_is(
    start: Callable[..., Process], server: Callable[[str], Any]
) -> None:
    process = start("up", EVENBEAT_BALANCING="observe")
    working, client = Client(await process.ready(), token()), await server("on")
    await working.remove_all()
    herd = await working.at_once(8, 24 * 60)
    busy = await working.create(kind="hangs", payload={}, interval_minutes=24 * 60)
    await working.act(busy["id"], "run")
    await working.becomes(busy["id"], "running")
    done = await client.rebalance()
    assert done["skipped"] == [{"job_id": busy["id"], "reason": "job_running"}]
    assert len(done["moved"]) == len(herd), "around the one that stays"
    await working.acted(busy["id"], "cancel")
    await working.becomes(busy["id"], "cancelled")
    await working.http.aclose()
    process.kill()


async def work_for(database: Database, clock: Clock, *, hours: int) -> None:
    for _ in range(hours * 3):
        await clock.advance(minutes=20)
        await settle(database, clock)


@pytest.mark.parametrize(("step", "is_done"), [("before_rebalance_commit", 0), ("rebalanced", 1)])
async def test_a_kill_during_a_rebalance_leaves_all_of_it_or_nothing(
    start: Callable[..., Process], database: Database, step: str, is_done: bool
) -> None:
    observer = start("server", EVENBEAT_BALANCING="observe")
    dying = start("server", EVENBEAT_FAILPOINT=f"{step}:kill")
    watching = Client(await observer.ready(), token())
    doomed = Client(await dying.ready(), token())
    await watching.remove_all()
    herd: list[Json] = await watching.at_once(40, 24 * 60)
    before = await watching.next_runs(herd)
    plan = await watching.preview()
    with pytest.raises(httpx.TransportError):
        await doomed.rebalance(plan_id=plan["plan_id"])
    assert await dying.ended() == -signal.SIGKILL
    proposed = {move["job_id"]: move["proposed_time"] for move in plan["preview"]}
    after = await watching.next_runs(herd)
    moved = {job for job in before if after[job] != before[job]}
    assert moved == (set(proposed) if is_done else set())
    shown = (await watching.get(f"{SCHEDULER}/rebalance/plans/{plan['plan_id']}")).json()
    assert shown["plan"]["state"] == ("applied" if is_done else "previewed")
    for client in (watching, doomed):
        await client.http.aclose()
