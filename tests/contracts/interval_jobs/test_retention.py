"""Retention: of each job the 100 newest executions stay, and all that are younger than 30 days."""

import pytest

from evenbeat.control.ops.housekeeping import Housekeeping
from evenbeat.store.database.pool import Database
from tests.contracts.interval_jobs.client import JOBS, Client, Json
from tests.support.databases import Clock
from tests.support.waiting import eventually

KEPT = 100
MORE = 103


async def total(api: Client, job: Json) -> int:
    return (await api.get(f"{JOBS}/{job['id']}/executions")).json()["total"]


async def ran(api: Client, clock: Clock) -> Json:
    """A job that has run 103 times, each missed beat of it."""
    words = {"catch_up": "all", "catch_up_cap": 1000}
    job = await api.create(kind="works", interval_minutes=1, **words)
    await clock.advance(minutes=MORE)
    await api.ended(job["id"], MORE)
    return await api.acted(job["id"], "cancel")


@pytest.mark.removes_history
async def test_what_is_old_and_not_among_the_100_newest_is_removed_and_numbers_go_on(
    api: Client, clock: Clock, database: Database
) -> None:
    old = await ran(api, clock)
    await clock.advance(days=31)
    young = await ran(api, clock)

    async def is_removed() -> bool:
        # Only what was counted is removed, and that goes by minutes.
        await Housekeeping(database).run_now()
        return await total(api, old) == KEPT

    await eventually(is_removed, "the oldest runs are removed")
    page = (await api.get(f"{JOBS}/{old['id']}/executions", limit=250)).json()["executions"]
    assert [run["execution_number"] for run in page] == list(range(MORE, MORE - KEPT, -1))
    assert await total(api, young) == MORE, "they are younger than 30 days"
    await api.acted(old["id"], "retry")
    assert (await api.ended(old["id"], MORE + 1))["status"] == "completed"
    stats = (await api.get(f"{JOBS}/{old['id']}/stats")).json()
    assert stats["total_executions"] == MORE + 1, "what was removed is still counted"
