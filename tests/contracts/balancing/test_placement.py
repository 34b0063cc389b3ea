"""Where jobs are put: spread out, near, at their own rate, and kept there."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.contracts.balancing.client import Client, Json, instant, slots_of
from tests.support.databases import Clock
from tests.support.processes import Process


@pytest.fixture
async def none_left(api: Client) -> None:
    await api.remove_all()


pytestmark = pytest.mark.usefixtures("none_left")


async def test_ten_jobs_of_one_interval_go_to_ten_slots(api: Client) -> None:
    jobs = await api.many(10, 360)
    assert set(slots_of(jobs).values()) == {1}


async def test_jobs_spread_across_a_rolling_window_of_24_hours(api: Client) -> None:
    jobs = await api.many(96, 24 * 60)
    assert max(slots_of(jobs).values()) == 1
    shown = await api.distribution()
    assert {hour["job_count"] for hour in shown["hourly_distribution"]} <= {3, 4, 5}
    assert shown["distribution_score"] > 0.97


async def test_a_new_job_avoids_the_loaded_slots(api: Client) -> None:
    """Every run of a job counts, not just its next one."""
    await api.many(3, 60)
    seen = Counter(int(instant(job["next_run_at"]).minute) // 15 for job in await api.many(1, 60))
    assert len(seen) == 1
    shown = await api.distribution()
    assert [hour["runs"] for hour in shown["hourly_distribution"]][1:-1] == [4] * 22
    assert shown["distribution_score"] == 1.0, "four hourly jobs, a quarter of an hour each"


@pytest.mark.parametrize("minutes", [5, 15, 20, 25, 50, 100, 360, 1440, 10_080])
async def test_a_first_run_is_never_in_the_past_nor_later_than_one_interval(
    api: Client, clock: Clock, minutes: int
) -> None:
    for job in await api.many(5, minutes):
        first = instant(job["next_run_at"])
        assert clock.now < first <= clock.now + timedelta(minutes=minutes)


@pytest.mark.parametrize("minutes", [10, 20, 25, 50, 100])
async def test_a_job_keeps_its_rhythm_and_its_exact_rate(
    api: Client, clock: Clock, minutes: int
) -> None:
    job = await api.works(minutes)
    due = instant(job["next_run_at"])
    for number in (1, 2, 3):
        await clock.set_to(due)
        await api.ended(job["id"], number)
        due += timedelta(minutes=minutes)
        assert instant((await api.job(job["id"]))["next_run_at"]) == due


async def test_after_a_standstill_a_job_runs_once_and_is_in_step_again(
    api: Client, clock: Clock
) -> None:
    job = await api.works(30)
    due = instant(job["next_run_at"])
    await clock.set_to(due + timedelta(hours=6, minutes=7))
    await api.ended(job["id"], 1)
    after = instant((await api.job(job["id"]))["next_run_at"])
    assert clock.now < after <= clock.now + timedelta(minutes=30)
    assert (after - due) % timedelta(minutes=30) == timedelta(0)
    assert len(await api.executions(job["id"])) == 1


async def test_a_deleted_job_leaves_a_gap_and_nobody_moves(api: Client) -> None:
    jobs = await api.many(12, 120)
    before, shown = await api.next_runs(jobs[1:]), await api.distribution()
    await api.http.delete(f"/api/v1/jobs/{jobs[0]['id']}")
    assert await api.next_runs(jobs[1:]) == before
    assert (await api.distribution())["total_jobs"] == shown["total_jobs"] - 1


async def test_the_gap_is_what_the_next_job_gets(api: Client) -> None:
    jobs = await api.many(8, 120)
    gone = slots_of(jobs[3:4])
    await api.http.delete(f"/api/v1/jobs/{jobs[3]['id']}")
    assert slots_of([await api.works(120)]) == gone


async def test_a_changed_interval_is_placed_afresh_and_nobody_else_moves(
    api: Client, clock: Clock
) -> None:
    others = await api.many(4, 60)
    before = await api.next_runs(others)
    job = await api.works(24 * 60)
    await api.put(job["id"], interval_minutes=60)
    changed = await api.job(job["id"])
    assert clock.now < instant(changed["next_run_at"]) <= clock.now + timedelta(hours=1)
    shown = await api.distribution()
    assert [hour["runs"] for hour in shown["hourly_distribution"]][1:-1] == [5] * 22
    assert await api.next_runs(others) == before


async def test_a_paused_job_is_no_load_and_a_resumed_one_is_placed_afresh(
    api: Client, clock: Clock
) -> None:
    [job, *others] = await api.many(4, 60)
    await api.acted(job["id"], "pause")
    assert (await api.distribution())["total_jobs"] == 3
    filler = await api.works(60)
    await api.acted(others[0]["id"], "pause")
    resumed = await api.acted(job["id"], "resume")
    assert clock.now < instant(resumed["next_run_at"]) <= clock.now + timedelta(hours=1)
    shown = await api.distribution()
    assert shown["distribution_score"] == 1.0, (filler, resumed)


async def test_a_job_without_an_interval_runs_at_once_and_is_no_load(api: Client) -> None:
    job = await api.create(kind="works", payload={})
    await api.ended(job["id"])
    off = await api.works(60, schedule_enabled=False)
    await api.ended(off["id"])
    assert (await api.distribution())["total_jobs"] == 0


async def test_jobs_are_spread_within_their_slot_to_the_second(api: Client) -> None:
    jobs = await api.many(30, 15)
    assert len({job["next_run_at"] for job in jobs}) == 30


async def test_a_restart_changes_nothing(
    api: Client, start: Callable[..., Process], clock: Clock
) -> None:
    jobs = await api.many(20, 120)
    before = await api.next_runs(jobs), await api.distribution()
    again = start("server")
    client = Client(await again.ready(), api.http.headers["authorization"].partition(" ")[2])
    try:
        assert (await client.next_runs(jobs), await client.distribution()) == before
    finally:
        await client.http.aclose()
        again.kill()


async def test_instances_place_around_what_others_have_placed(
    api: Client, server: Callable[[str], Client]
) -> None:
    """Four at once would put four jobs into each of few slots, if each kept a map of its own."""
    other = await server("on")
    jobs: list[Json] = []
    for _ in range(24):
        jobs += [await api.works(720), await other.works(720)]
    assert max(slots_of(jobs).values()) == 1


async def test_nothing_is_reshuffled_by_itself(api: Client, clock: Clock) -> None:
    jobs = await api.many(6, 24 * 60)
    before = await api.next_runs(jobs)
    for job in jobs[:3]:
        await api.http.delete(f"/api/v1/jobs/{job['id']}")
    await clock.advance(seconds=90)
    assert await api.next_runs(jobs[3:]) == {job["id"]: before[job["id"]] for job in jobs[3:]}
