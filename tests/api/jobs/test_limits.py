"""One list of limits: whatever Python accepts, the API shows, changes and accepts back."""

import asyncio
import json
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import httpx2 as httpx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenbeat.api.v1.jobs.wire.job_in import JobIn
from evenbeat.api.v1.jobs.wire.job_out import JobDetailOut
from evenbeat.api.v1.jobs.wire.patch import WRITABLE, apply_changes, find_changes
from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.control.jobs.validation import check_definition, check_policy
from evenbeat.core import limits
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.backoff import Exponential, Fixed, Linear, RetryRule
from evenbeat.core.jobs.definition import define
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import AfterFailure, CatchUp, Definition, Job, Policy, Pulse, State
from evenbeat.core.ops.statistics import Health, HealthCondition
from evenbeat.core.time.timetable import Timetable, TimetableBounds
from tests.core.time.schedule_strategies import STRATEGIES
from tests.support.serving import assert_refused

JOBS = "/api/v1/jobs"
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
HEALTHY = Health(HealthCondition.OK, ())
often = settings(deadline=None, max_examples=60)


def texts(longest: int) -> st.SearchStrategy[str]:
    """Short texts, and the longest that is allowed."""
    characters = st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00{}")
    short = st.text(characters, min_size=1, max_size=20).filter(lambda text: not text.isspace())
    return short | st.just("x" * longest)


def numbers(least: int, most: int) -> st.SearchStrategy[int]:
    return st.sampled_from([least, most]) | st.integers(least, most)


def spans(longest: timedelta, shortest: timedelta = timedelta(0)) -> st.SearchStrategy[timedelta]:
    return st.sampled_from([shortest, longest]) | st.timedeltas(shortest, longest)


WAITS = spans(limits.LONGEST_BACKOFF)
JITTERS = st.sampled_from([0.0, 0.25, 1.0])
BACKOFFS = st.one_of(
    st.builds(Exponential, WAITS, WAITS, jitter=JITTERS),
    st.builds(Linear, WAITS, WAITS, jitter=JITTERS),
    st.builds(Fixed, WAITS, jitter=JITTERS),
)
RULES = st.builds(
    RetryRule,
    texts(limits.LONGEST_ERROR_NAME),
    st.none() | BACKOFFS,
    st.none() | numbers(1, limits.MOST_ATTEMPTS),
)
POLICIES = st.builds(
    Policy,
    max_attempts=numbers(1, limits.MOST_ATTEMPTS),
    backoff=BACKOFFS,
    timeout=spans(limits.LONGEST_TIMEOUT, limits.SHORTEST_TIMEOUT),
    catch_up=st.sampled_from(CatchUp),
    catch_up_cap=numbers(1, limits.MAX_BEATS),
    start_deadline=st.none() | spans(limits.LONGEST_DURATION, limits.SHORTEST_TIMEOUT),
    after_failure=st.sampled_from(AfterFailure),
    pause_after_failures=st.none() | numbers(1, limits.MOST_FAILURES_BEFORE_PAUSE),
    retry_rules=st.lists(RULES, max_size=3).map(tuple)
    | RULES.map(lambda rule: (rule,) * limits.MOST_RETRY_RULES),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts(20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(20), inner, max_size=3),
)
DEFINITIONS = st.builds(
    Definition,
    kind=texts(limits.LONGEST_WORD) | st.just("crawl"),
    # As it is stored: planned.
    timetable=st.builds(
        Timetable,
        st.one_of(*STRATEGIES.values()).map(lambda rule: rule.seeded("a job").planned_at(NOW)),
        st.builds(TimetableBounds, max_runs=st.none() | numbers(1, limits.MAX_RUNS)),
    ),
    payload=JSON,
    name=st.none() | texts(limits.LONGEST_JOB_NAME),
    policy=POLICIES,
    priority=numbers(0, limits.HIGHEST_PRIORITY),
    labels=st.dictionaries(
        texts(limits.LONGEST_WORD), st.just("") | texts(limits.LONGEST_LABEL_VALUE), max_size=3
    )
    | st.just({str(number): "x" for number in range(limits.MOST_LABELS)}),
    group=st.none()
    | st.builds(
        Group,
        texts(limits.LONGEST_GROUP_KEY),
        job_limit=st.none() | numbers(1, limits.LARGEST_JOB_LIMIT),
    ),
    runs_on=st.lists(texts(limits.LONGEST_WORD), max_size=3).map(tuple)
    | st.just(tuple(str(number) for number in range(limits.MOST_NODE_LABELS))),
)
# A change of one field over the API, and the same change of the definition.
CHANGES: dict[str, tuple[dict[str, Any], Callable[[Definition], Definition]]] = {
    "name": ({"name": "another"}, lambda was: replace(was, name="another")),
    "runs_on": ({"runs_on": ["gpu"]}, lambda was: replace(was, runs_on=("gpu",))),
    "labels": (
        {"labels": {"a": "b"}, "tags": ["c"]},
        lambda was: replace(was, labels={"a": "b", "c": ""}),
    ),
    "payload": ({"payload": {"n": 17}}, lambda was: replace(was, payload={"n": 17})),
    "timeout": (
        {"timeout": 77},
        lambda was: replace(was, policy=replace(was.policy, timeout=timedelta(seconds=77))),
    ),
    "max_retries": (
        {"max_retries": 7},
        lambda was: replace(was, policy=replace(was.policy, max_attempts=8)),
    ),
}


def job_of(definition: Definition) -> Job:
    pulse = Pulse(State.SCHEDULED, next_beat_at=NOW, due_at=NOW, state_at=NOW)
    return Job(1, uuid4(), definition, pulse, version=1, created_at=NOW, updated_at=NOW)


def is_accepted_by_python(definition: Definition) -> bool:
    try:
        check_definition(definition)
        check_policy(definition.policy)
    except InvalidInput:
        return False
    return True


def detail_of(job: Job) -> JobDetailOut:
    return JobDetailOut.from_parts(job, HEALTHY, NOW)


def shown(job: Job) -> dict[str, Any]:
    """The JSON that a client reads."""
    return json.loads(detail_of(job).model_dump_json())


@often
@given(DEFINITIONS, st.sampled_from(sorted(CHANGES)))
def test_what_python_accepts_is_shown_and_one_field_of_it_can_be_changed(
    definition: Definition, field: str
) -> None:
    assume(is_accepted_by_python(definition))
    job = job_of(definition)
    body, expected = CHANGES[field]
    changes = find_changes(shown(job) | body, detail_of(job))
    assert apply_changes(job, changes, NOW) == expected(definition)


@often
@given(DEFINITIONS)
def test_what_python_accepts_can_be_sent_back_as_a_new_job(definition: Definition) -> None:
    assume(is_accepted_by_python(definition))
    # To the API a payload of null is the default, {}.
    assume(definition.payload is not None)
    theirs = {
        *("type", "max_retries", "retry_backoff_seconds", "url", "source_id", "source_name"),
        *("metadata", "interval_minutes", "interval_type", "schedule_time", "schedule_enabled"),
    }
    fields = {
        name: value
        for name, value in shown(job_of(definition)).items()
        if name in WRITABLE - theirs and value is not None
    }
    made = JobIn.model_validate(fields).to_core()
    assert replace(made, timetable=definition.timetable) == definition
    assert made.timetable.bounds == definition.timetable.bounds


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_retries", limits.MOST_INTERVAL_JOB_RETRIES + 1),
        ("retry_backoff_seconds", limits.LONGEST_INTERVAL_JOB_BACKOFF.total_seconds() + 1),
    ],
)
def test_the_words_of_the_interval_scheduler_keep_its_limits(
    api: httpx.Client, field: str, value: float
) -> None:
    assert_refused(api.post(JOBS, json={"kind": "echo", field: int(value)}), field)


def test_a_job_of_python_beyond_those_limits_can_be_changed_over_the_api(
    api: httpx.Client, database_url: str
) -> None:
    wide = define(
        "echo",
        "every 1h",
        name=secrets.token_hex(8),
        timeout=0.5,
        max_attempts=limits.MOST_ATTEMPTS,
        start_deadline=timedelta(milliseconds=1),
        pause_after_failures=limits.MOST_FAILURES_BEFORE_PAUSE,
        runs_on=[str(number) for number in range(limits.MOST_NODE_LABELS)],
        labels={"long": "x" * limits.LONGEST_LABEL_VALUE},
        payload=None,
    )

    async def add() -> Job:
        async with Evenbeat(load(environ={}, database_url=database_url)) as app:
            return await app.jobs.add(wide)

    place = f"{JOBS}/{asyncio.run(add()).uid}"
    before = api.get(place).json()
    assert (before["timeout"], before["max_attempts"]) == (0.5, limits.MOST_ATTEMPTS)
    answer = api.patch(place, json={"priority": 5})
    assert (answer.status_code, answer.json()["priority"]) == (200, 5), answer.text
    kept = {name: value for name, value in answer.json().items() if name in WRITABLE}
    assert kept == {name: before[name] for name in kept} | {"priority": 5}


def test_a_crawl_that_sql_gave_another_payload_is_shown(
    api: httpx.Client, database_url: str
) -> None:
    async def enqueue(payload: str) -> Any:
        connection = await asyncpg.connect(database_url)
        try:
            query = "select evenbeat.enqueue('crawl', $1::jsonb, now() + interval '1 day')"
            return await connection.fetchval(query, payload)
        finally:
            await connection.close()

    for payload in ([1], "x", {"url": 7, "metadata": "x", "source_id": "s"}):
        job = api.get(f"{JOBS}/{asyncio.run(enqueue(json.dumps(payload)))}").json()
        assert job["payload"] == payload
        assert (job["url"], job["metadata"]) == (None, {})


def test_a_job_leaves_its_group(api: httpx.Client) -> None:
    body = {"kind": "echo", "schedule": "every 1h", "group": secrets.token_hex(4)}
    place = api.post(JOBS, json=body).headers["location"]
    left = api.patch(place, json={"group": None})
    assert (left.status_code, left.json()["group"]) == (200, None), left.text
