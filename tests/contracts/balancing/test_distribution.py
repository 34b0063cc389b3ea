"""The distribution: every documented key, and what the numbers mean, in every mode."""

import itertools
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.contracts.balancing.client import SCHEDULER, Client, instant
from tests.support.databases import Clock
from tests.support.waiting import eventually

KEYS = {
    *("window_hours", "slot_minutes", "total_jobs", "hourly_distribution", "distribution_score"),
    *("peak_hour", "peak_count", "suggestion"),
}


async def test_without_jobs_everything_is_even(api: Client) -> None:
    shown = await api.distribution()
    assert set(shown) >= KEYS
    assert (shown["window_hours"], shown["slot_minutes"]) == (24, 15)
    assert (shown["total_jobs"], shown["peak_count"], shown["peak_hour"]) == (0, 0, 0)
    assert shown["distribution_score"] == shown["minute_score"] == 1.0
    assert shown["suggestion"] == "Distribution is acceptable"


async def test_the_hours_are_the_24_from_now_on(api: Client, clock: Clock) -> None:
    hours = (await api.distribution())["hourly_distribution"]
    assert [hour["hour"] for hour in hours] == list(range(24))
    starts = [instant(hour["starts_at"]) for hour in hours]
    assert clock.now - timedelta(minutes=15) < starts[0] <= clock.now
    assert {later - earlier for earlier, later in itertools.pairwise(starts)} == {
        timedelta(hours=1)
    }


async def test_jobs_and_their_runs_are_counted_by_the_hour(api: Client, clock: Clock) -> None:
    await clock.set_to(clock.now.replace(minute=0, second=0))
    await api.many(2, 20)
    daily = await api.works(24 * 60)
    shown = await api.distribution()
    assert shown["total_jobs"] == 3
    hours = shown["hourly_distribution"]
    own = (instant(daily["next_run_at"]) - clock.now) // timedelta(hours=1)
    assert [hour["job_count"] for hour in hours] == [2 + (hour == own) for hour in range(24)]
    assert sum(hour["runs"] for hour in hours) == 2 * 72 + 1
    assert (shown["peak_hour"], shown["peak_count"]) == (own, 3)


async def test_jobs_that_are_not_placed_count_as_well(api: Client) -> None:
    before = await api.distribution()
    await api.create(kind="works", payload={}, schedule="daily 03:30")
    after = await api.distribution()
    assert after["total_jobs"] == before["total_jobs"] + 1
    assert sum(hour["runs"] for hour in after["hourly_distribution"]) == 1 + sum(
        hour["runs"] for hour in before["hourly_distribution"]
    )


async def test_a_group_has_a_distribution_of_its_own(api: Client) -> None:
    await api.many(3, 60, group="shop")
    shown = await api.distribution(group="shop")
    assert (shown["group"], shown["total_jobs"]) == ("shop", 3)
    assert shown["total_jobs"] < (await api.distribution())["total_jobs"]
    assert (await api.distribution(group="nobody"))["total_jobs"] == 0


@pytest.mark.parametrize("mode", ["on", "observe", "off"])
async def test_it_answers_the_same_in_every_mode(
    api: Client, server: Callable[[str], Client], mode: str
) -> None:
    client = await server(mode)
    shown, expected = await client.distribution(), await api.distribution()
    assert shown.pop("balancing") == mode
    expected.pop("balancing")
    assert shown == expected
    for path in ("forecast", "rebalance/plans"):
        answers = [await each.get(f"{SCHEDULER}/{path}") for each in (client, api)]
        assert answers[0].status_code == 200, answers[0].text
        assert answers[0].json() == answers[1].json()
    # A node may look at the load between two requests.
    assert (await client.get(f"{SCHEDULER}/score/history")).status_code == 200


async def test_the_distribution_is_in_the_metrics(api: Client) -> None:
    await api.remove_all()
    await api.many(4, 60)

    async def look() -> dict[str, float] | None:
        found = await api.text_of_metrics()
        return found if found.get("scheduler_peak_hour_job_count") == 4 else None

    found = await eventually(look, "a node has looked at the four jobs")
    shown = await api.distribution()
    assert found["scheduler_distribution_score"] == shown["distribution_score"] == 1.0
    counts = [hour["job_count"] for hour in shown["hourly_distribution"]]
    names = [f'scheduler_slot_job_count{{hour="{hour}"}}' for hour in range(24)]
    assert [found[name] for name in names] == counts


async def test_the_history_of_the_score_is_kept(api: Client, clock: Clock) -> None:
    await clock.advance(minutes=1)

    async def look() -> list[dict[str, object]]:
        answer = await api.get(f"{SCHEDULER}/score/history", hours=1)
        return [each for each in answer.json()["scores"] if instant(each["at"]) == clock.now]

    [point] = await eventually(look, "a node has looked at this minute")
    assert (point["score"], point["total_jobs"]) == (1.0, 4)
    assert (await api.get("/readyz")).json()["figures"]["distribution"] == "ok"
