"""Adding many jobs: all or none, in order, with every fault told by its place."""

import asyncio
from typing import Any

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import Conflict, InvalidInput
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Definition
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.jobs.job_inserts import SQL
from tests.control.given import counts, definition, fetch, value
from tests.control.jobs.test_add import WRITTEN
from tests.engine.node_runner import Does, NodeRunner
from tests.support.waiting import eventually


class Picky(Does):
    def check(self, payload: Any) -> None:
        if payload == "bad":
            raise InvalidInput("payload.url", "is missing")


async def test_every_definition_is_stored_as_one_added_alone_is(
    jobs: Jobs, database: Database
) -> None:
    batch = await jobs.add_many(WRITTEN)
    found = [await jobs.get(uid) for uid in batch.uids]
    await fetch(database, "delete from evenbeat.pulse")
    await fetch(database, "delete from evenbeat.job")
    for job, written in zip(found, WRITTEN, strict=True):
        alone = await jobs.add(written)
        assert (job.definition, job.pulse) == (alone.definition, alone.pulse)
    assert batch.new_count == len(WRITTEN)


async def test_ids_come_back_in_the_order_in_which_jobs_were_given(jobs: Jobs) -> None:
    given = [(definition(payload=n), f"k{n % 7}" if n % 2 else None) for n in range(200)]
    batch = await jobs.add_many(given)
    first_of: dict[str, int] = {}
    for n, (_, key) in enumerate(given):
        expected = n if key is None else first_of.setdefault(key, n)
        assert (await jobs.get(batch.uids[n])).definition.payload == expected
        assert (n in batch.found) == (expected != n)


async def test_keys_that_live_jobs_hold_give_those_jobs(jobs: Jobs, database: Database) -> None:
    there = await jobs.add(definition(), dedupe_key="b")
    batch = await jobs.add_many([(definition(), key) for key in "abcb"])
    assert batch.uids[1] == batch.uids[3] == there.uid
    assert batch.found == {1, 3}
    assert batch.new_count == 2
    assert (await counts(database))["job"] == (await counts(database))["pulse"] == 3


async def test_nothing_but_found_jobs_is_nothing_new(jobs: Jobs) -> None:
    there = await jobs.add(definition(), dedupe_key="a")
    assert (await jobs.add_many([(definition(), "a")])).uids == [there.uid]
    assert (await jobs.add_many([])).uids == []


async def test_every_fault_is_told_by_its_place_and_nothing_is_stored(database: Database) -> None:
    jobs = Jobs(database, Registry([Picky(Done())]))
    given: list[Any] = [definition() for _ in range(20)]
    given[3] = definition(payload={"a": "\x00"})
    given[5] = (definition(), "")
    given[7] = definition(policy={"max_attempts": 0})
    given[9] = definition(kind="dance")
    given[11] = definition(payload="bad")
    given[12] = definition(name="twice")
    given[13] = definition(name="twice")
    given[15] = definition(group=Group("{payload.host}"))
    before = await counts(database)
    with pytest.raises(InvalidInput) as refused:
        await jobs.add_many(given)
    assert [error.field for error in refused.value.errors] == [
        "jobs[3].payload.a",
        "jobs[5].dedupe_key",
        "jobs[7].max_attempts",
        "jobs[9].kind",
        "jobs[11].payload.url",
        "jobs[13].name",
        "jobs[15].group.key",
    ]
    assert "jobs[12]" in str(refused.value)
    assert await counts(database) == before


async def test_no_more_than_a_hundred_faults_are_told(jobs: Jobs) -> None:
    with pytest.raises(InvalidInput) as refused:
        await jobs.add_many(definition(priority=-1) for _ in range(5000))
    assert len(refused.value.errors) == 100
    assert refused.value.errors[-1].field == "jobs[99].priority"


async def test_more_than_a_hundred_thousand_are_refused(jobs: Jobs, database: Database) -> None:
    one = definition()
    with pytest.raises(InvalidInput, match="at most 100,000"):
        await jobs.add_many(one for _ in range(100_001))
    assert (await counts(database))["job"] == 0


async def test_what_is_no_definition_is_refused(jobs: Jobs) -> None:
    with pytest.raises(InvalidInput, match=r"jobs\[1\]"):
        await jobs.add_many([definition(), "now"])  # type: ignore[list-item]


async def test_a_name_that_is_taken_leaves_none_of_them(jobs: Jobs, database: Database) -> None:
    await jobs.add(definition(name="n7"))
    before = await counts(database)
    with pytest.raises(Conflict, match="n7"):
        await jobs.add_many(
            definition(name=f"n{n}", group=Group("site"), runs_on=("gpu",)) for n in range(9)
        )
    assert await counts(database) == before


async def test_groups_and_lanes_are_made_once_with_the_limits_of_their_first_job(
    jobs: Jobs, database: Database
) -> None:
    await jobs.add_many(
        definition(payload={"host": f"h{n % 3}"}, group=Group("{payload.host}", max_running=n + 1))
        for n in range(9)
    )
    rows = await fetch(database, "select key, max_running from evenbeat.job_group order by key")
    assert [tuple(row) for row in rows] == [("h0", 1), ("h1", 2), ("h2", 3)]
    wrong = """
        select count(*) from evenbeat.job join evenbeat.pulse on pulse.id = job.id
        left join evenbeat.job_group on job_group.id = pulse.group_id
        where job.group_key is distinct from job_group.key
    """
    assert await value(database, wrong) == 0


async def test_two_who_add_the_same_jobs_in_other_orders_do_not_wait_in_a_circle(
    database: Database,
) -> None:
    given: list[tuple[Definition, str | None]] = [
        (definition(payload={"host": f"h{n}"}, group=Group("{payload.host}")), f"k{n}")
        for n in range(300)
    ]
    several = [Jobs(database, Registry([Does(Done())])) for _ in range(4)]
    orders = [given, given[::-1], given[150:] + given[:150], given[::2] + given[1::2]]
    batches = await asyncio.gather(
        *(each.add_many(order) for each, order in zip(several, orders, strict=True))
    )
    assert sum(batch.new_count for batch in batches) == 300
    assert (await counts(database))["job"] == (await counts(database))["job_group"] == 300
    assert set(batches[0].uids) == set(batches[1].uids) == set(batches[3].uids)


@pytest.mark.proof
async def test_a_hundred_thousand_jobs_are_stored_and_the_nodes_are_woken_once(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    heard: list[str] = []
    await caller.add_listener("evenbeat_wake", lambda *told: heard.append(told[2]))
    batch = await jobs.add_many(definition(payload={"n": n}) for n in range(100_000))
    assert len(set(batch.uids)) == batch.new_count == 100_000
    assert await value(
        database, "select count(*) from evenbeat.pulse where due_at is not null"
    ) == (100_000)
    await eventually(lambda: heard, "a wake-up")
    await caller.execute("select 1")
    assert len(heard) == 1


async def test_a_node_runs_jobs_that_were_added_at_once(
    node_runner: NodeRunner, jobs: Jobs
) -> None:
    handled: list[Any] = []
    async with node_runner.node(Does(lambda context: handled.append(context.payload) or Done())):
        await jobs.add_many((definition(payload=n), f"k{n}") for n in range(500))
        await eventually(lambda: len(handled) == 500, "all of them")
    assert sorted(handled) == list(range(500))


async def test_a_plan_made_for_one_job_serves_ten_thousand(database: Database) -> None:
    """A nested loop over them would be a hundred million steps."""
    async with database.connection() as connection:
        statement = SQL["insert_by_key"]
        await connection.execute("set plan_cache_mode = 'force_generic_plan'")
        await connection.execute(f"prepare stored as {statement.text('database')}")
        nulls = ", ".join(["null"] * len(statement.parameters))
        rows = await connection.fetch(f"explain execute stored({nulls})")
        await connection.execute("deallocate stored; reset plan_cache_mode")
    plan = "\n".join(row[0] for row in rows)
    join = next(line for line in plan.splitlines() if "Full Join" in line)
    assert "Hash Full Join" in join or "Merge Full Join" in join


async def test_a_lane_that_is_closed_meanwhile_leaves_none_of_them(
    jobs: Jobs, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave_closed(session: Session, lanes: Any) -> None:
        """As if somebody had closed what was just opened."""

    monkeypatch.setattr("evenbeat.control.jobs.adding.open_lanes", leave_closed)
    with pytest.raises(Conflict, match="lane"):
        await jobs.add_many([definition(), definition()])
    assert (await counts(database))["job"] == 0


async def test_an_unknown_connection_is_refused(jobs: Jobs) -> None:
    with pytest.raises(InvalidInput, match=r"asyncpg.*evenbeat\.enqueue"):
        await jobs.add_many([definition()], connection=object())
