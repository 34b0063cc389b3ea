"""Pause, resume, cancel and retry: their answers, and every way from state to state."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from tests.contracts.interval_jobs.client import UNKNOWN, Client, Json, instant, stillness
from tests.support.databases import Clock
from tests.support.serving import assert_problem

Build = Callable[[Client], Awaitable[Json]]


async def pending(api: Client) -> Json:
    return await api.crawl()


async def scheduled(api: Client) -> Json:
    return await api.crawl(interval_minutes=30)


async def running(api: Client) -> Json:
    return await api.becomes((await api.create(kind="hangs"))["id"], "running")


async def paused(api: Client) -> Json:
    return await api.acted((await scheduled(api))["id"], "pause")


async def completed(api: Client) -> Json:
    return await api.becomes((await api.create(kind="works"))["id"], "completed")


async def failed(api: Client) -> Json:
    return await api.becomes((await api.create(kind="fails", max_retries=0))["id"], "failed")


async def cancelled(api: Client) -> Json:
    return await api.acted((await scheduled(api))["id"], "cancel")


async def disabled(api: Client) -> Json:
    return await api.acted((await scheduled(api))["id"], "disable")


# The way to every state, and what is allowed there.
STATES: dict[str, tuple[Build, str]] = {
    "pending": (pending, "run pause cancel disable edit delete"),
    "scheduled": (scheduled, "run pause cancel disable edit delete"),
    "running": (running, "pause cancel release disable edit delete"),
    "paused": (paused, "run resume cancel disable edit delete"),
    "completed": (completed, "retry edit delete"),
    "failed": (failed, "run retry disable edit delete"),
    "cancelled": (cancelled, "retry edit delete"),
    "disabled": (disabled, "run enable edit delete"),
}
ACTIONS = ("pause", "resume", "cancel", "retry", "run", "enable", "disable")
ILLEGAL = [
    (state, action)
    for state, (_, allowed) in STATES.items()
    for action in ACTIONS
    if action not in allowed.split()
]


@pytest.mark.parametrize(("state", "action"), ILLEGAL)
async def test_what_a_state_does_not_allow_is_409_with_what_it_allows(
    api: Client, state: str, action: str
) -> None:
    build, allowed = STATES[state]
    job = await build(api)
    before = await api.job(job["id"])
    assert (before["status"], before["allowed_actions"]) == (state, allowed.split())
    problem = assert_problem(await api.act(job["id"], action), 409)
    assert problem["allowed_actions"] == allowed.split()
    assert action in str(problem["error"])
    assert await api.job(job["id"]) == before
    if state == "running":
        await api.acted(job["id"], "cancel")


@pytest.mark.parametrize("action", ACTIONS)
async def test_nothing_can_be_done_to_a_job_that_is_not_there(api: Client, action: str) -> None:
    assert_problem(await api.act(UNKNOWN, action), 404)


async def test_a_paused_job_says_so_and_nothing_of_it_is_due(api: Client, clock: Clock) -> None:
    job = await scheduled(api)
    await clock.advance(minutes=10)
    answer = await api.acted(job["id"], "pause")
    assert (answer["id"], answer["status"], answer["is_paused"]) == (job["id"], "paused", True)
    assert instant(answer["paused_at"]) == clock.now
    assert answer["next_run_at"] is None


async def test_a_paused_job_does_not_run_and_is_not_lost(api: Client, clock: Clock) -> None:
    job = await api.create(kind="works", interval_minutes=30)
    await api.acted(job["id"], "pause")
    other = await api.create(kind="works", interval_minutes=30)
    await clock.advance(hours=2)
    await api.ended(other["id"])
    assert await api.executions(job["id"]) == []
    await api.acted(job["id"], "resume")
    # The beats of the pause are one row, which is number 1 and shown only to those who ask for it.
    assert await api.executions(job["id"]) == []
    await clock.advance(minutes=30)
    await api.ended(job["id"], 2)


async def test_a_resumed_job_is_scheduled_within_one_interval(api: Client, clock: Clock) -> None:
    job = await paused(api)
    await clock.advance(hours=5, minutes=7)
    answer = await api.acted(job["id"], "resume")
    assert (answer["status"], answer["is_paused"]) == ("scheduled", False)
    assert answer["paused_at"] is None
    wait = instant(answer["next_run_at"]) - clock.now
    assert timedelta(0) < wait <= timedelta(minutes=30)


@pytest.mark.parametrize("build", [pending, scheduled, paused])
async def test_a_cancelled_job_says_so_and_has_nothing_planned(
    api: Client, clock: Clock, build: Build
) -> None:
    job = await build(api)
    await clock.advance(minutes=5)
    answer = await api.acted(job["id"], "cancel")
    assert (answer["id"], answer["status"]) == (job["id"], "cancelled")
    assert instant(answer["cancelled_at"]) == clock.now
    assert (answer["next_run_at"], answer["is_paused"]) == (None, False)


@pytest.mark.parametrize("build", [failed, completed, cancelled])
async def test_a_retried_job_is_pending_due_at_once_and_begins_anew(
    api: Client, admin: Client, clock: Clock, build: Build
) -> None:
    job = await build(api)
    await clock.advance(minutes=5)
    async with stillness(admin):
        answer = await api.acted(job["id"], "retry")
        found = await api.job(job["id"])
    assert (answer["id"], answer["status"]) == (job["id"], "pending")
    assert answer["current_retry_count"] == 0
    assert instant(answer["next_run_at"]) == clock.now
    cleared = ("error_message", "completed_at", "cancelled_at", "paused_at")
    assert [answer[name] for name in cleared] == [None] * 4
    assert answer == {name: found[name] for name in answer}


async def test_a_job_that_is_run_by_hand_is_pending_and_its_schedule_is_not_touched(
    api: Client, admin: Client
) -> None:
    job = await api.create(kind="works", interval_minutes=30)
    async with stillness(admin):
        answer = await api.act(job["id"], "run")
        assert answer.status_code == 202
        assert answer.json()["status"] == "pending"
    await api.ended(job["id"])
    assert (await api.becomes(job["id"], "scheduled"))["next_run_at"] == job["next_run_at"]


async def test_a_cancelled_job_that_was_paused_runs_when_it_is_retried(
    api: Client, clock: Clock
) -> None:
    job = await api.create(kind="works", interval_minutes=30)
    await api.acted(job["id"], "pause")
    await api.acted(job["id"], "cancel")
    answer = await api.acted(job["id"], "retry")
    assert answer["is_paused"] is False
    await api.ended(job["id"])
    assert (await api.becomes(job["id"], "scheduled"))["next_run_at"] is not None


async def test_a_paused_job_can_be_run_by_hand_and_stays_paused(api: Client) -> None:
    job = await api.create(kind="works", interval_minutes=30)
    await api.acted(job["id"], "pause")
    assert (await api.act(job["id"], "run")).status_code == 202
    await api.ended(job["id"])
    assert (await api.becomes(job["id"], "paused"))["next_run_at"] is None


async def test_a_running_job_that_is_paused_finishes_first_and_says_what_is_allowed_till_then(
    api: Client, clock: Clock
) -> None:
    job = await api.create(kind="hangs", interval_minutes=30)
    await clock.advance(minutes=30)
    await api.becomes(job["id"], "running")
    answer = await api.acted(job["id"], "pause")
    assert answer["status"] == "running"
    allowed = ["resume", "cancel", "release", "disable", "edit", "delete"]
    assert answer["allowed_actions"] == allowed
    refused = assert_problem(await api.act(job["id"], "pause"), 409)
    assert refused["allowed_actions"] == allowed
    await api.acted(job["id"], "cancel")
    await api.becomes(job["id"], "cancelled")


async def test_a_failed_job_that_has_a_next_run_can_be_paused_and_cancelled(
    api: Client, clock: Clock
) -> None:
    job = await api.create(kind="fails", max_retries=0, interval_minutes=30)
    await clock.advance(minutes=30)
    failed = await api.becomes(job["id"], "failed")
    assert {"pause", "cancel", "retry"} <= set(failed["allowed_actions"])
    assert (await api.acted(job["id"], "pause"))["status"] == "paused"
    assert (await api.acted(job["id"], "cancel"))["status"] == "cancelled"
