"""Rebalancing by hand: what is shown is what is done, few move, and whoever stays has a reason."""

import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.contracts.balancing.client import SCHEDULER, Client, Json, instant
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.serving import assert_problem

HERD = 24


@pytest.fixture
async def herd(server: Callable[[str], Any], clock: Clock) -> list[Json]:
    """Jobs that all run at the same time, as without balancing, and no others."""
    observer: Client = await server("observe")
    await observer.remove_all()
    jobs = await observer.at_once(HERD, 24 * 60)
    assert len({job["next_run_at"] for job in jobs}) == 1
    return jobs


@pytest.fixture
async def client(server: Callable[[str], Any]) -> Client:
    return await server("on")


def times(moves: list[Json], *names: str) -> dict[str, tuple[datetime, ...]]:
    return {move["job_id"]: tuple(instant(move[name]) for name in names) for move in moves}


async def test_a_preview_has_every_documented_key_and_changes_nothing(
    client: Client, herd: list[Json]
) -> None:
    before = await client.next_runs(herd), await client.distribution()
    shown = await client.preview()
    assert shown["would_move"] == len(shown["preview"]) == HERD - 1
    assert shown["would_skip"] == len(shown["skipped"]) == 0
    assert 0 <= shown["current_score"] < shown["projected_score"] <= 1
    assert set(shown["preview"][0]) >= {"job_id", "current_time", "proposed_time"}
    assert (await client.next_runs(herd), await client.distribution()) == before
    assert (await client.preview())["preview"] == shown["preview"], "and can be asked for again"


async def test_a_rebalance_has_every_documented_key_and_moves_what_it_says(
    client: Client, herd: list[Json], clock: Clock
) -> None:
    done = await client.rebalance()
    assert len(done["moved"]) == HERD - 1
    assert set(done["moved"][0]) >= {"job_id", "old_time", "new_time"}
    now = await client.next_runs(herd)
    for job_id, (old, new) in times(done["moved"], "old_time", "new_time").items():
        assert old == clock.now + timedelta(days=1)
        assert now[job_id] == new
        assert abs(new - old) <= timedelta(hours=12), "no run shifts by more than half an interval"
    assert done["new_distribution_score"] == (await client.distribution())["distribution_score"]
    assert done["new_distribution_score"] > 0.9


async def test_what_is_applied_is_exactly_what_the_preview_showed(
    client: Client, herd: list[Json]
) -> None:
    shown = await client.preview()
    done = await client.rebalance(plan_id=shown["plan_id"])
    assert times(done["moved"], "old_time", "new_time", "effective_from") == times(
        shown["preview"], "current_time", "proposed_time", "effective_from"
    )
    assert done["skipped"] == shown["skipped"]
    assert done["new_distribution_score"] == shown["projected_score"]


async def test_a_rebalance_of_an_even_schedule_moves_nothing(
    client: Client, herd: list[Json], clock: Clock
) -> None:
    await client.rebalance()
    await clock.advance(hours=1, minutes=1)
    again = await client.rebalance()
    assert again["moved"] == []


async def test_the_intervals_are_as_they_were(client: Client, herd: list[Json]) -> None:
    await client.rebalance()
    for job in herd[:5]:
        shown = await client.job(job["id"])
        assert (shown["interval_minutes"], shown["interval_type"]) == (1440, "minutes")
        beats = [instant(beat) for beat in shown["next"]]
        assert {b - a for a, b in itertools.pairwise(beats)} == {timedelta(days=1)}


async def test_within_the_cooldown_of_an_hour_a_job_stays(
    client: Client, herd: list[Json], clock: Clock
) -> None:
    moved = {move["job_id"] for move in (await client.rebalance())["moved"]}
    await clock.advance(minutes=59)
    reasons = {each["job_id"]: each["reason"] for each in (await client.preview())["skipped"]}
    assert {job for job, reason in reasons.items() if reason == "placement_cooldown"} == moved
    await clock.advance(minutes=2)
    reasons = {each["job_id"]: each["reason"] for each in (await client.preview())["skipped"]}
    assert "placement_cooldown" not in reasons.values()


async def test_a_restart_neither_begins_the_cooldown_nor_ends_it(
    herd: list[Json], start: Callable[..., Process], client: Client
) -> None:
    fresh = start("server")
    again = Client(await fresh.ready(), client.http.headers["authorization"].partition(" ")[2])
    assert (await again.preview())["would_move"] == HERD - 1
    # When a job was placed is stored, and not what the process that did it remembers.
    moved = {move["job_id"] for move in (await client.rebalance())["moved"]}
    reasons = {each["job_id"]: each["reason"] for each in (await again.preview())["skipped"]}
    assert {job for job, reason in reasons.items() if reason == "placement_cooldown"} == moved
    await again.http.aclose()
    fresh.kill()


async def test_within_the_protection_window_of_half_an_hour_a_job_stays(
    client: Client, herd: list[Json], clock: Clock
) -> None:
    await clock.set_to(instant(herd[0]["next_run_at"]) - timedelta(minutes=30))
    shown = await client.preview()
    assert shown["would_move"] == 0
    assert {each["reason"] for each in shown["skipped"]} == {"protection_window"}
    await clock.advance(seconds=-1)
    assert (await client.preview())["would_move"] > 0


async def test_a_short_interval_moves_all_the_same_but_not_its_next_half_hour(
    client: Client, server: Callable[[str], Any], clock: Clock
) -> None:
    observer: Client = await server("observe")
    await observer.remove_all()
    jobs = await observer.at_once(8, 30)
    done = await client.rebalance()
    assert len(done["moved"]) > 3
    assert done["skipped"] == []
    for move in done["moved"]:
        assert instant(move["effective_from"]) > clock.now + timedelta(minutes=30)
    assert set((await client.next_runs(jobs)).values()) == {clock.now + timedelta(minutes=30)}


async def test_one_time_jobs_are_neither_moved_nor_skipped(
    client: Client, herd: list[Json]
) -> None:
    once = await client.create(kind="works", payload={})
    done = await client.rebalance()
    assert once["id"] not in {each["job_id"] for each in done["moved"] + done["skipped"]}


async def test_jobs_that_may_not_move_stay_and_say_so(
    client: Client, herd: list[Json], clock: Clock
) -> None:
    daily = await client.create(kind="works", payload={}, schedule="daily 03:30")
    alone = await client.works(24 * 60, balance=False)
    stays = await client.next_runs([daily, alone])
    assert stays[alone["id"]] == clock.now + timedelta(days=1), "where its schedule puts it"
    done = await client.rebalance()
    reasons = {each["job_id"]: each["reason"] for each in done["skipped"]}
    assert reasons == {daily["id"]: "pinned", alone["id"]: "pinned"}
    assert await client.next_runs([daily, alone]) == stays


async def test_a_budget_limits_the_moves(client: Client, herd: list[Json]) -> None:
    shown = await client.preview(max_moves=10)
    assert shown["would_move"] == 10
    assert shown["current_score"] < shown["projected_score"] < shown["attainable_score"]


@pytest.mark.parametrize("change", ["create", "delete", "interval", "pause"])
async def test_a_plan_does_not_hold_once_the_schedule_has_changed(
    client: Client, herd: list[Json], change: str
) -> None:
    plan = (await client.preview())["plan_id"]
    before = await client.next_runs(herd[1:])
    if change == "create":
        await client.works(24 * 60)
    elif change == "delete":
        await client.http.delete(f"/api/v1/jobs/{herd[0]['id']}")
    elif change == "interval":
        await client.put(herd[0]["id"], interval_minutes=60)
    else:
        await client.acted(herd[0]["id"], "pause")
    answer = await client.http.post(f"{SCHEDULER}/rebalance", json={"plan_id": plan})
    assert "changed" in str(assert_problem(answer, 409)["error"])
    assert await client.next_runs(herd[1:]) == before, "all or nothing"


async def test_a_plan_is_applied_once(client: Client, herd: list[Json]) -> None:
    plan = (await client.preview())["plan_id"]
    await client.rebalance(plan_id=plan)
    answer = await client.http.post(f"{SCHEDULER}/rebalance", json={"plan_id": plan})
    assert "applied" in str(assert_problem(answer, 409)["error"])


async def test_a_plan_is_good_for_five_minutes(
    client: Client, herd: list[Json], clock: Clock
) -> None:
    plan = (await client.preview())["plan_id"]
    await clock.advance(minutes=5, seconds=1)
    answer = await client.http.post(f"{SCHEDULER}/rebalance", json={"plan_id": plan})
    assert "old" in str(assert_problem(answer, 409)["error"])


async def test_the_last_rebalance_can_be_taken_back(client: Client, herd: list[Json]) -> None:
    before, score = (
        await client.next_runs(herd),
        (await client.distribution())["distribution_score"],
    )
    done = await client.rebalance()
    answer = await client.http.post(f"{SCHEDULER}/rebalance/undo")
    assert answer.status_code == 200, answer.text
    undone = answer.json()
    assert undone["undoes"] == done["plan_id"]
    assert len(undone["moved"]) == len(done["moved"])
    assert await client.next_runs(herd) == before
    assert (await client.distribution())["distribution_score"] == score
    assert_problem(await client.http.post(f"{SCHEDULER}/rebalance/undo"), 409)


async def test_a_rebalance_of_short_intervals_that_is_taken_back_at_once_leaves_no_trace(
    client: Client, server: Callable[[str], Any]
) -> None:
    observer: Client = await server("observe")
    await observer.remove_all()
    jobs = await observer.at_once(6, 30)
    before = [(await client.job(job["id"]))["next"] for job in jobs]
    assert len((await client.rebalance())["moved"]) > 3
    assert [(await client.job(job["id"]))["next"] for job in jobs] != before
    assert (await client.http.post(f"{SCHEDULER}/rebalance/undo")).status_code == 200
    assert [(await client.job(job["id"]))["next"] for job in jobs] == before


async def test_a_group_is_rebalanced_by_itself(
    client: Client, server: Callable[[str], Any], herd: list[Json]
) -> None:
    observer: Client = await server("observe")
    mine = await observer.at_once(6, 24 * 60, group="shop")
    before = await client.next_runs(herd)
    done = await client.rebalance(group="shop")
    assert {move["job_id"] for move in done["moved"]} <= {job["id"] for job in mine}
    assert len(done["moved"]) == 5
    assert await client.next_runs(herd) == before
    assert (await client.distribution(group="shop"))["distribution_score"] == 1.0


@pytest.mark.parametrize("mode", ["observe", "off"])
async def test_where_balancing_is_not_on_a_preview_is_given_and_a_rebalance_refused(
    server: Callable[[str], Any], herd: list[Json], mode: str
) -> None:
    other: Client = await server(mode)
    shown = await other.preview()
    assert shown["would_move"] == HERD - 1
    for wanted in (None, {"plan_id": shown["plan_id"]}):
        answer = await other.http.post(f"{SCHEDULER}/rebalance", json=wanted)
        assert "EVENBEAT_BALANCING" in str(assert_problem(answer, 409)["error"])
    assert_problem(await other.http.post(f"{SCHEDULER}/rebalance/undo"), 409)


async def test_plans_are_kept_with_what_became_of_them(
    client: Client, herd: list[Json], clock: Clock
) -> None:
    await clock.advance(seconds=1)
    shown = await client.preview()
    path = f"{SCHEDULER}/rebalance/plans"
    newest = (await client.get(path)).json()["plans"][0]
    assert (newest["plan_id"], newest["state"]) == (shown["plan_id"], "previewed")
    await client.rebalance(plan_id=shown["plan_id"])
    kept = (await client.get(f"{path}/{shown['plan_id']}")).json()
    assert kept["plan"]["state"] == "applied"
    assert len(kept["moves"]) == shown["would_move"]
    unknown = "01890000-0000-7000-8000-000000000000"
    assert_problem(await client.get(f"{path}/{unknown}"), 404)
