"""evenbeat.enqueue(…): the same rows as Python's add, on any connection, by plain SQL."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import State
from evenbeat.core.runs.outcome import Done
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database.pool import Database
from tests.control.given import counts, definition, fetch, rows_of, value
from tests.engine.node_runner import Does, NodeRunner
from tests.support.waiting import eventually

AT = datetime(2031, 5, 1, 8, 30, tzinfo=UTC)
ENQUEUE = "select evenbeat.enqueue($1, payload => $2, run_at => $3, options => $4)"
# Options as SQL has them, and the same for Python.
OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"priority": 100}, {"priority": 100}),
    ({"max_attempts": 9}, {"policy": {"max_attempts": 9}}),
    ({"max_attempts": 3, "timeout": 3600}, {}),
    ({"timeout": 90}, {"policy": {"timeout": timedelta(seconds=90)}}),
    ({"timeout": 0.25}, {"policy": {"timeout": timedelta(seconds=0.25)}}),
    ({"labels": {"team": "search", "a": "ü"}}, {"labels": {"team": "search", "a": "ü"}}),
    ({"runs_on": ["gpu", "Eu", "gpu"]}, {"runs_on": ("gpu", "Eu", "gpu")}),
    ({"group": {"key": "site", "max_running": 3}}, {"group": Group("site", 3)}),
    ({"group": {"key": "free"}}, {"group": Group("free")}),
]
CLOCKS = {"job.created_at", "job.updated_at", "pulse.state_at"}


@pytest.fixture(autouse=True)
async def known(jobs: Jobs) -> None:
    """A kind is known to SQL once anybody has added such a job, or a node has served it."""
    await jobs.cancel((await jobs.add(definition())).uid)


@pytest.mark.parametrize("at", [AT, AT + timedelta(microseconds=120), AT.replace(year=2001)])
@pytest.mark.parametrize(("given", "same"), OPTIONS)
async def test_the_rows_are_those_that_python_writes(
    jobs: Jobs, database: Database, caller: Any, at: datetime, given: Any, same: Any
) -> None:
    payload = {"a": [1, 2.5, None, "ü"]}
    uid = await caller.fetchval(ENQUEUE, "work", json.dumps(payload), at, json.dumps(given))
    groups = await fetch(database, "delete from evenbeat.job_group returning key, max_running")
    theirs = await rows_of(database, uid)
    group_id = theirs.pop("pulse.group_id")
    job = await jobs.add(definition(f"once {at.isoformat()}", payload=payload, **same))
    ours = await rows_of(database, job.uid)
    assert (ours.pop("pulse.group_id") is None) == (group_id is None)
    assert groups == await fetch(database, "select key, max_running from evenbeat.job_group")
    await fetch(database, "delete from evenbeat.pulse where id <> $1", job.id)
    await fetch(database, "delete from evenbeat.job where id <> $1", job.id)
    assert {name: theirs[name] for name in theirs.keys() - CLOCKS} == {
        name: ours[name] for name in ours.keys() - CLOCKS
    }
    assert {uid.version, job.uid.version} == {7}


async def test_name_key_and_a_payload_of_null_are_written_alike(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    query = "select evenbeat.enqueue('work', null, $1, 'n', 'k')"
    theirs = await rows_of(database, await caller.fetchval(query, AT))
    await caller.execute("delete from evenbeat.pulse; delete from evenbeat.job")
    once = definition(f"once {AT.isoformat()}", payload=None, name="n")
    ours = await rows_of(database, (await jobs.add(once, dedupe_key="k")).uid)
    assert {name: theirs[name] for name in theirs.keys() - CLOCKS} == {
        name: ours[name] for name in ours.keys() - CLOCKS
    }


async def test_a_job_can_be_read_and_runs_at_once_by_default(
    node_runner: NodeRunner, jobs: Jobs, caller: Any
) -> None:
    handled: list[Any] = []
    async with node_runner.node(Does(lambda context: handled.append(context.payload) or Done())):
        await caller.execute("select evenbeat.enqueue(kind => 'work', payload => '{\"a\": 1}')")
        await eventually(lambda: handled, "the job to run")
    assert handled == [{"a": 1}]


async def test_an_id_sorts_by_the_time_of_birth(caller: Any) -> None:
    before = datetime.now(UTC) - timedelta(seconds=60)
    uid = await caller.fetchval("select evenbeat.enqueue('work')")
    born_at = datetime.fromtimestamp((uid.int >> 80) / 1000, UTC)
    assert before < born_at < before + timedelta(seconds=120)
    assert uid.variant == "specified in RFC 4122"


async def test_a_key_that_a_live_job_holds_gives_that_job(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    query = "select evenbeat.enqueue('work', dedupe_key => 'k')"
    uid = await caller.fetchval(query)
    assert await caller.fetchval(query) == uid
    assert (await jobs.add(definition(), dedupe_key="k")).uid == uid
    await jobs.cancel(uid)
    again = await jobs.add(definition(), dedupe_key="k")
    assert await caller.fetchval(query) == again.uid != uid
    assert (await counts(database))["pulse"] == (await counts(database))["job"]


async def test_twenty_from_sql_and_python_make_one_job(database: Database) -> None:
    wide = Database(database.url, clock="set", pool_size=20)
    await wide.open()
    jobs = Jobs(wide, Registry([Does(Done())]))

    async def by_sql() -> Any:
        async with wide.connection() as connection:
            return await connection.fetchval("select evenbeat.enqueue('work', dedupe_key => 'k')")

    async def by_python() -> Any:
        return (await jobs.add(definition(), dedupe_key="k")).uid

    ways = [by_sql() if n % 2 else by_python() for n in range(20)]
    assert len(set(await asyncio.gather(*ways))) == 1
    await jobs.close()
    await wide.close()


async def test_a_name_that_is_taken_is_a_violation_that_says_so(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    await jobs.add(definition(name="it's taken"))
    before = await counts(database)
    with pytest.raises(asyncpg.UniqueViolationError, match="name: there is a job named 'it''s tak"):
        await caller.execute("select evenbeat.enqueue('work', name => 'it''s taken')")
    assert await counts(database) == before


DEEP = "[" * 70 + "]" * 70
BAD: list[tuple[str, str]] = [
    ("'dance'", "kind: no kind 'dance'; known kinds: work"),
    ("null", "kind: no kind NULL"),
    (f"'work', '{DEEP}'", "payload: is nested deeper than 64"),
    ("'work', '1e400'", "payload: has a number"),
    ("'work', '{\"a\": [-1e309]}'", "payload: has a number"),
    ("'work', to_jsonb(repeat('x', 1000000))", "payload: is larger"),
    ("'work', run_at => null", "run_at: must lie"),
    ("'work', run_at => 'infinity'", "run_at: must lie"),
    ("'work', run_at => '1999-12-31Z'", "run_at: must lie"),
    ("'work', name => ''", "name: must have"),
    ("'work', name => '  '", "name: must not be blank"),
    ("'work', name => repeat('x', 201)", "name: must have"),
    ("'work', dedupe_key => ''", "dedupe_key: must have"),
    ("'work', dedupe_key => repeat('x', 201)", "dedupe_key: must have"),
    ("'work', options => null", "options: must be an object"),
    ("'work', options => '[]'", "options: must be an object"),
    ("""'work', options => '{"schedule": "every 1h"}'""", "options.schedule: .* run once"),
    ("""'work', options => '{"speed": 1}'""", "options.speed: is not known; there are priority"),
    ("""'work', options => '{"priority": 101}'""", "options.priority: .* 0 to 100"),
    ("""'work', options => '{"priority": -1}'""", "options.priority"),
    ("""'work', options => '{"priority": 1.5}'""", "options.priority"),
    ("""'work', options => '{"priority": "7"}'""", "options.priority"),
    ("""'work', options => '{"priority": [7]}'""", "options.priority"),
    ("""'work', options => '{"priority": null}'""", "options.priority"),
    ("""'work', options => '{"max_attempts": 0}'""", "options.max_attempts: .* 1 to 1000"),
    ("""'work', options => '{"max_attempts": 1001}'""", "options.max_attempts"),
    ("""'work', options => '{"timeout": 0}'""", "options.timeout: .* 2592000"),
    ("""'work', options => '{"timeout": "5m"}'""", "options.timeout"),
    ("""'work', options => '{"timeout": 2592001}'""", "options.timeout"),
    ("""'work', options => '{"labels": ["a"]}'""", "options.labels"),
    ("""'work', options => '{"labels": {"a": 1}}'""", "options.labels"),
    ("""'work', options => '{"runs_on": "gpu"}'""", "options.runs_on"),
    ("""'work', options => '{"runs_on": [1]}'""", "options.runs_on"),
    ("""'work', options => '{"runs_on": [""]}'""", "options.runs_on"),
    ("""'work', options => '{"group": "site"}'""", "options.group: must be an object"),
    ("""'work', options => '{"group": {}}'""", "options.group.key"),
    ("""'work', options => '{"group": {"key": ""}}'""", "options.group.key"),
    ("""'work', options => '{"group": {"key": "{a}"}}'""", "options.group.key: .* Python only"),
    ("""'work', options => '{"group": {"key": "a", "max_running": 0}}'""", "max_running"),
    ("""'work', options => '{"group": {"key": "a", "rate": "1/s"}}'""", "options.group: has key"),
]


@pytest.mark.parametrize(("arguments", "why"), BAD)
async def test_what_cannot_work_is_refused_by_its_field_and_nothing_is_stored(
    database: Database, caller: Any, arguments: str, why: str
) -> None:
    before = await counts(database)
    with pytest.raises(asyncpg.InvalidParameterValueError, match=why):
        await caller.execute(f"select evenbeat.enqueue({arguments})")
    assert await counts(database) == before


async def test_what_is_allowed_at_most_is_stored_and_read(jobs: Jobs, caller: Any) -> None:
    deep = "[" * 63 + "]" * 63
    options = '{"priority": 100, "max_attempts": 1000, "timeout": 2592000}'
    query = f"select evenbeat.enqueue('work', '{deep}', $1, repeat('ü', 200), 'k', '{options}')"
    job = await jobs.get(await caller.fetchval(query, datetime(2200, 1, 1, tzinfo=UTC)))
    assert (job.definition.priority, job.pulse.state) == (100, State.PENDING)
    assert job.definition.policy.timeout == timedelta(days=30)


async def test_a_rollback_leaves_nothing(database: Database, caller: Any) -> None:
    before = await counts(database)
    transaction = caller.transaction()
    await transaction.start()
    options = '{"group": {"key": "new"}, "runs_on": ["gpu"]}'
    await caller.execute(f"select evenbeat.enqueue('work', options => '{options}')")
    await transaction.rollback()
    assert await counts(database) == before


async def test_the_commit_is_heard_and_a_far_away_job_is_not(
    database: Database, caller: Any
) -> None:
    heard: list[Any] = []
    listening = await asyncpg.connect(database.url)
    await listening.add_listener("evenbeat_wake", lambda *told: heard.append(told))
    await caller.execute("select evenbeat.enqueue('work', run_at => now() + interval '1 hour')")
    async with caller.transaction():
        await caller.execute("select evenbeat.enqueue('work') from generate_series(1, 3)")
        await listening.execute("select 1")
        assert heard == []
    await eventually(lambda: heard, "the wake-up")
    assert len(heard) == 1
    assert await value(database, "select count(*) from evenbeat.job") == 5
    await listening.close()


async def test_settings_of_the_callers_session_change_nothing(
    jobs: Jobs, database: Database, caller: Any
) -> None:
    await caller.execute(
        "set timezone = 'Asia/Kathmandu'; set datestyle = 'SQL, DMY'; set search_path = ''"
    )
    uid = await caller.fetchval(
        "select evenbeat.enqueue('work', run_at => $1)", AT + timedelta(milliseconds=1)
    )
    timetable = (await rows_of(database, uid))["job.timetable"]
    assert timetable == {"schedule": {"once": "2031-05-01T08:30:00.001000Z"}}
