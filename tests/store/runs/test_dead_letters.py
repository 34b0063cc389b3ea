"""Dead letters: a beat that ran out of attempts, kept once, with all that a person needs."""

from typing import Any

import asyncpg
import pytest

from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import ErrorClass
from evenbeat.core.runs.outcome import Failed, HandedBack, Lost, Outcome, Skipped, Snoozed
from tests.conftest import START
from tests.store.given import DONE, FAILED, HOUR, MINUTE, JobStore, definition
from tests.support.databases import Clock


async def letters(job_store: JobStore) -> list[Any]:
    return await job_store.fetch("select * from evenbeat.dead_letter order by id")


async def test_a_beat_without_attempts_left_is_buried_once_with_its_last_error(
    job_store: JobStore, clock: Clock
) -> None:
    written = definition(name="nightly", payload={"url": "x"}, policy={"max_attempts": 2})
    job = await job_store.add(written)
    await job_store.end(await job_store.claim_one(), outcome=Failed("the first error"))
    assert await letters(job_store) == [], "a retry still waits"
    await clock.advance(minutes=1)
    last = await job_store.claim_one()
    await job_store.end(last, outcome=FAILED)
    await job_store.end(last, outcome=FAILED)
    [letter] = await letters(job_store)
    assert (letter["id"], letter["job_id"], letter["job_name"]) == (last.run.id, job.id, "nightly")
    assert (letter["kind"], letter["beat_at"], letter["attempts"]) == ("echo", START, 2)
    assert (letter["error"], letter["error_class"]) == ("out of order", ErrorClass.HANDLER_ERROR)
    assert letter["payload"] == {"url": "x"}
    assert (letter["created_at"], letter["acknowledged_at"]) == (clock.now, None)


async def test_the_next_beat_has_a_letter_of_its_own(job_store: JobStore, clock: Clock) -> None:
    await job_store.add(definition(policy={"max_attempts": 1}))
    for _ in range(2):
        await job_store.end(await job_store.claim_one(), outcome=FAILED)
        await clock.advance(hours=1)
    assert [letter["beat_at"] for letter in await letters(job_store)] == [START, START + HOUR]


@pytest.mark.parametrize(
    "outcome", [DONE, FAILED, HandedBack(), Snoozed(MINUTE), Skipped("late"), Lost()]
)
async def test_nothing_else_is_buried(job_store: JobStore, outcome: Outcome) -> None:
    await job_store.add(definition(policy={"max_attempts": 3}))
    await job_store.end(await job_store.claim_one(), outcome=outcome)
    assert await letters(job_store) == []


async def test_a_beat_that_was_lost_three_times_is_buried(job_store: JobStore) -> None:
    await job_store.add(definition("now", policy={"max_attempts": 9}))
    for losses in range(3):
        assert len(await letters(job_store)) == 0, losses
        await job_store.end(await job_store.claim_one(), outcome=Lost())
    [letter] = await letters(job_store)
    assert (letter["attempts"], letter["error_class"]) == (3, ErrorClass.LOST)
    assert letter["error"] == "the node died"


async def test_a_final_failure_is_buried_at_once(job_store: JobStore) -> None:
    await job_store.add()
    await job_store.end(await job_store.claim_one(), outcome=Failed("never", is_final=True))
    assert [letter["attempts"] for letter in await letters(job_store)] == [1]


async def test_a_manual_run_that_failed_for_good_is_buried_without_a_beat(
    job_store: JobStore,
) -> None:
    await job_store.add(definition(policy={"max_attempts": 1}), due_at=START + HOUR)
    await job_store.fetch("update evenbeat.pulse set manual_at = $1", START)
    await job_store.end(await job_store.claim_one(), outcome=FAILED)
    [letter] = await letters(job_store)
    assert (letter["beat_at"], letter["attempts"]) == (None, 1)


async def test_of_a_batch_only_the_dead_are_buried(job_store: JobStore) -> None:
    for attempts in (1, 3, 1):
        await job_store.add(definition(policy={"max_attempts": attempts}))
    claimed = await job_store.claim()
    await job_store.end(*claimed, outcome=FAILED)
    dead = [each.id for each in claimed if each.definition.policy.max_attempts == 1]
    assert sorted(letter["job_id"] for letter in await letters(job_store)) == sorted(dead)


SEEN = "acknowledged_at = created_at, acknowledged_by = 'ann'"
ENDED = "ended_at = created_at, ended_by = 'ann'"


@pytest.mark.parametrize(
    "change",
    [
        "acknowledged_at = created_at",
        "acknowledged_by = 'ann'",
        f"ending = 'd', {ENDED}",
        f"{SEEN}, ending = 'd'",
        f"{SEEN}, {ENDED}",
        f"{SEEN}, {ENDED}, ending = 'r'",
        f"{SEEN}, {ENDED}, ending = 'd', requeued_as = gen_random_uuid()",
        f"{SEEN}, {ENDED}, ending = 'x'",
    ],
)
async def test_a_letter_is_never_ended_by_nobody_or_by_halves(
    job_store: JobStore, change: str
) -> None:
    await job_store.add(definition(policy={"max_attempts": 1}))
    await job_store.end(await job_store.claim_one(), outcome=FAILED)
    with pytest.raises(asyncpg.CheckViolationError):
        await job_store.fetch(f"update evenbeat.dead_letter set {change}")


async def test_a_letter_carries_what_it_takes_to_run_again_without_its_job(
    job_store: JobStore,
) -> None:
    written = definition(
        "now", policy={"max_attempts": 1}, labels={"team": "a"}, priority=5, group=Group("site")
    )
    job = await job_store.add(written)
    [claimed] = await job_store.claim_grouped()
    await job_store.end(claimed, outcome=Failed("no answer in 30 s"))
    [letter] = await letters(job_store)
    assert (letter["job_uid"], letter["group_key"]) == (job.uid, "site")
    assert letter["signature"] == "no answer in <n> s"
    assert letter["terms"] == {
        "policy": {"max_attempts": 1},
        "labels": {"team": "a"},
        "runs_on": [],
        "priority": 5,
        "group_limit": None,
    }
