"""Jobs: what is written comes back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from evenbeat.core.errors import Conflict, NotFound
from evenbeat.core.jobs.backoff import Exponential, Fixed, Linear, RetryRule
from evenbeat.core.jobs.model import AfterFailure, CatchUp, Definition, Job, Policy, State
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.schedules.base.window import Window
from evenbeat.core.time.timetable import Timetable, TimetableBounds
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import jobs
from evenbeat.store.jobs.job_inserts import new_job_uid
from tests.conftest import START
from tests.store import given
from tests.store.given import HOUR, MINUTE, JobStore, definition

NEVER = new_job_uid(START)
HOURLY = Timetable(parse_schedule("every 1h phase=5m"))
POLICIES: list[dict[str, Any]] = [
    {"max_attempts": 7},
    {"backoff": Exponential(base=timedelta(seconds=2), cap=timedelta(minutes=1), jitter=0.25)},
    {"backoff": Linear(step=timedelta(seconds=5))},
    {"backoff": Fixed(wait=timedelta(seconds=0.5))},
    {"timeout": timedelta(milliseconds=1500)},
    {"catch_up": CatchUp.ALL, "catch_up_cap": 5},
    {"catch_up": CatchUp.NONE, "start_deadline": timedelta(minutes=10)},
    {"after_failure": AfterFailure.STOP, "pause_after_failures": 3},
    {"retry_rules": (RetryRule("timeout", Fixed(), 2), RetryRule("ValueError", None, 1))},
]
SCHEDULES = [
    "every 1h30m phase=2m",
    "hourly :15",
    "daily 06:00 Europe/Berlin",
    "weekly sun 02:00",
    "0 8 * * MON-FRI Europe/Berlin",
    "H H(0-7) * * * seed=reports",
    "once 2031-12-01T08:00:00Z",
]
OTHERS: list[dict[str, Any]] = [
    {"name": "nightly ✓ \u202e 'quoted' \"twice\""},
    {"payload": {"a": [1, 2.5, None, True, "ü", {"deep": []}], "big": 2**63 - 1}},
    {"payload": None},
    {"payload": "text"},
    {"payload": [1]},
    {"labels": {"team": "search", "city": "Zürich"}},
    {"priority": 100},
]
TIMETABLES = [
    *(Timetable(parse_schedule(each)) for each in SCHEDULES),
    Timetable(
        parse_schedule("every 1h phase=0s"),
        TimetableBounds(START + HOUR, datetime(2199, 1, 1, tzinfo=UTC), max_runs=9),
    ),
    Timetable(parse_schedule("every 1h phase=0s"), window=Window.parse("09:00-17:00")),
]
WRITTEN = [
    *(Definition("echo", HOURLY, policy=Policy(**each)) for each in POLICIES),
    *(Definition("echo", each) for each in TIMETABLES),
    *(Definition("echo", HOURLY, **each) for each in OTHERS),
]


async def insert(database: Database, written: Definition, **more: Any) -> Job:
    uid = new_job_uid(START)
    state = more.pop("state", State.SCHEDULED)
    first_beat = more.pop("first_beat", START + HOUR)
    await given.insert(database, written, uid=uid, state=state, first_beat=first_beat)
    return await jobs.find_job(database, uid)


async def test_every_field_of_a_definition_comes_back_as_it_was_written(
    job_store: JobStore, database: Database
) -> None:
    for written in WRITTEN:
        assert (await insert(database, written)).definition == written


async def test_a_new_job_waits_for_its_first_beat(job_store: JobStore, database: Database) -> None:
    job = await insert(database, definition())
    assert job.pulse.state is State.SCHEDULED
    assert job.pulse.next_beat_at == job.pulse.due_at == START + HOUR
    assert (job.version, job.created_at, job.updated_at) == (1, START, START)
    assert (job.pulse.run_number, job.pulse.attempt) == (0, 0)


async def test_a_name_is_given_once(job_store: JobStore, database: Database) -> None:
    await insert(database, definition(name="nightly"))
    with pytest.raises(Conflict, match="a job named 'nightly' already"):
        await insert(database, definition(name="nightly"))
    assert await job_store.value("select count(*) from evenbeat.pulse") == 1


async def test_a_name_is_free_again_once_its_job_is_deleted(
    job_store: JobStore, database: Database
) -> None:
    job = await insert(database, definition(name="nightly"))
    await job_store.fetch("update evenbeat.job set deleted_at = created_at where id = $1", job.id)
    assert (await insert(database, definition(name="nightly"))).id != job.id


async def test_any_number_of_jobs_has_no_name(job_store: JobStore, database: Database) -> None:
    assert (await insert(database, definition())).id != (await insert(database, definition())).id


async def test_a_job_of_an_unknown_kind_is_refused_and_leaves_nothing_behind(
    job_store: JobStore, database: Database
) -> None:
    unknown = definition(kind="dance", name="taken?")
    assert not await given.insert(
        database, unknown, uid=NEVER, state=State.SCHEDULED, first_beat=START
    )
    assert await job_store.value("select count(*) from evenbeat.job") == 0
    await insert(database, definition(name="taken?"))


async def test_an_unknown_or_deleted_job_is_not_found(
    job_store: JobStore, database: Database
) -> None:
    with pytest.raises(NotFound, match=str(NEVER)):
        await jobs.find_job(database, NEVER)
    job = await insert(database, definition())
    await job_store.fetch("update evenbeat.job set deleted_at = created_at where id = $1", job.id)
    with pytest.raises(NotFound):
        await jobs.find_job(database, job.uid)


@pytest.mark.parametrize("column", ["next_beat_at", "retry_at", "manual_at"])
@pytest.mark.parametrize("instant", ["1999-12-31T23:59:59Z", "2200-01-01T00:00:01Z", "infinity"])
async def test_no_instant_outside_of_two_centuries_is_stored(
    job_store: JobStore, column: str, instant: str
) -> None:
    await job_store.add()
    with pytest.raises(asyncpg.CheckViolationError):
        await job_store.fetch(f"update evenbeat.pulse set {column} = '{instant}'")


@pytest.mark.parametrize(
    ("state", "times", "due_at"),
    [
        ("s", {"next_beat_at": 60}, 60),
        ("s", {"next_beat_at": 60, "retry_at": 5}, 5),
        ("s", {"next_beat_at": 5, "retry_at": 60}, 60),
        ("s", {"next_beat_at": 60, "retry_at": 5, "manual_at": 3}, 3),
        ("s", {"next_beat_at": 60, "manual_at": 99}, 60),
        ("p", {"next_beat_at": 60}, 60),
        ("f", {"next_beat_at": 60}, 60),
        ("f", {}, None),
        ("z", {"next_beat_at": 60, "retry_at": 5}, None),
        ("z", {"next_beat_at": 60, "manual_at": 3}, 3),
        ("d", {"next_beat_at": 60, "manual_at": 3}, 3),
        ("c", {"next_beat_at": 60}, None),
        ("x", {"next_beat_at": 60, "manual_at": 3}, None),
    ],
)
async def test_when_a_job_is_due_follows_from_its_state_and_its_instants(
    job_store: JobStore, state: str, times: dict[str, int], due_at: int | None
) -> None:
    job = await job_store.add()
    instants = {name: START + minutes * MINUTE for name, minutes in times.items()}
    await job_store.fetch(
        "update evenbeat.pulse set state = $1, next_beat_at = $2, retry_at = $3, manual_at = $4",
        state.encode(),
        *(instants.get(name) for name in ("next_beat_at", "retry_at", "manual_at")),
    )
    expected = None if due_at is None else START + due_at * MINUTE
    assert (await job_store.find(job)).pulse.due_at == expected
    for is_parked in (True, False):
        await job_store.fetch(
            "update evenbeat.pulse set is_parked = $1, is_tucked = not $1", is_parked
        )
        assert await job_store.value("select due_at from evenbeat.pulse") is None
