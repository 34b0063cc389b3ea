"""Health, info and metrics, for those who watch over the service."""

import asyncio
from collections.abc import Callable

import pytest

from tests.contracts.tasks.client import Client
from tests.support.databases import Clock
from tests.support.processes import Process
from tests.support.waiting import eventually

HEALTH = "/actuator/health"


@pytest.fixture(scope="module")
def up(start: Callable[..., Process]) -> str:
    """A server whose only node comes when a test starts it."""
    return asyncio.run(start("server", EVENBEAT_READY_LAG="1m").ready())


async def test_a_service_in_order_is_up(tasks: Client) -> None:
    answer = await tasks.get(HEALTH)
    assert answer.status_code == 200
    body = answer.json()
    assert (body["status"], body["groups"]) == ("UP", ["liveness", "readiness"])
    assert {each["status"] for each in body["components"].values()} == {"UP"}
    for group in body["groups"]:
        answer = await tasks.get(f"{HEALTH}/{group}")
        assert (answer.status_code, answer.json()) == (200, {"status": "UP"})


async def test_one_that_does_not_run_its_tasks_lives_and_is_out_of_service(
    tasks: Client, clock: Clock
) -> None:
    task = await tasks.created(runAt=clock.now.isoformat())
    await clock.advance(minutes=2)
    answer = await tasks.get(HEALTH)
    assert (answer.status_code, answer.json()["status"]) == (503, "DOWN")
    components = answer.json()["components"]
    down = [name for name, each in components.items() if each["status"] == "DOWN"]
    assert down == ["schedule"]
    answer = await tasks.get(f"{HEALTH}/readiness")
    assert (answer.status_code, answer.json()) == (503, {"status": "OUT_OF_SERVICE"})
    answer = await tasks.get(f"{HEALTH}/liveness")
    assert (answer.status_code, answer.json()) == (200, {"status": "UP"})
    await tasks.cancel(task["id"])
    assert (await tasks.get(HEALTH)).status_code == 200


async def test_the_info_says_what_this_is(tasks: Client) -> None:
    assert (await tasks.get("/actuator/info")).json() == {"app": {"name": "evenbeat"}}


async def test_metrics_tell_tasks_by_status_their_outcomes_and_how_long_they_took(
    start: Callable[..., Process], clock: Clock
) -> None:
    everything = Client(await start("up").ready())
    done = await everything.created(runAt=clock.now.isoformat())
    failed = await everything.created(type="fails", runAt=clock.now.isoformat(), maxAttempts=1)
    await everything.becomes(done["id"], "DONE")
    await everything.becomes(failed["id"], "FAILED")
    wanted = {
        'evenbeat_jobs{state="completed"} 1.0',
        'evenbeat_jobs{state="failed"} 1.0',
        'evenbeat_runs_total{kind="echo",outcome="completed"} 1.0',
        'evenbeat_runs_total{kind="fails",outcome="failed"} 1.0',
        'evenbeat_run_duration_seconds_count{kind="echo"} 1.0',
    }

    async def told() -> set[str] | None:
        # The figures of the whole cluster are taken once in a while.
        await clock.advance(minutes=1)
        found = wanted.intersection((await everything.get("/metrics")).text.splitlines())
        return found if found == wanted else None

    assert await eventually(told, str(wanted)) == wanted
    await everything.http.aclose()
