"""SQL cannot import core/limits.py: what stands there as a number is the same number."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.core import limits
from tests.store.given import JobStore

CHECKS = """
    select relation.relname || '.' || attribute.attname as field,
           pg_get_constraintdef(constraint_.oid) as text
    from pg_constraint as constraint_
    join pg_class as relation on relation.oid = constraint_.conrelid
    join pg_attribute as attribute
      on attribute.attrelid = constraint_.conrelid
     and attribute.attnum = constraint_.conkey[1]
    where constraint_.contype = 'c'
      and constraint_.connamespace = 'evenbeat'::regnamespace
      and constraint_.coninhcount = 0
"""
# Upper bounds of the schema that a person can reach.
IN_SCHEMA = {
    "job.name": limits.LONGEST_JOB_NAME,
    "pulse.dedupe_key": limits.LONGEST_DEDUPE_KEY,
    "pulse.priority": limits.HIGHEST_PRIORITY,
    "job_group.key": limits.LONGEST_GROUP_KEY,
    "access_token.name": limits.LONGEST_TOKEN_NAME,
    "idempotency.key": limits.LONGEST_IDEMPOTENCY_KEY,
}
# These bound what Evenbeat itself writes: a status of HTTP, a score.
OURS = {"idempotency.status", "score.score", "score.minute_score"}

FAULT = "select evenbeat.fault_of_job($1, $2, now(), $3, $4, $5)"


async def test_every_bound_of_a_check_constraint_is_in_the_list(job_store: JobStore) -> None:
    found = {
        row["field"]: float(bound[1])
        for row in await job_store.fetch(CHECKS)
        if (bound := re.search(r"<= '?\(?(\d+)", row["text"])) and row["field"] not in OURS
    }
    assert found == IN_SCHEMA


async def test_a_job_limit_fits_its_column(job_store: JobStore) -> None:
    query = """
        select atttypid::regtype::text
        from pg_attribute
        where attrelid = 'evenbeat.pulse'::regclass
          and attname = 'group_limit'
    """
    assert await job_store.value(query) == "smallint"
    assert limits.LARGEST_JOB_LIMIT == 2**15 - 1


async def fault_of(job_store: JobStore, **given: Any) -> str | None:
    """What `evenbeat.enqueue` would refuse of a job."""
    options = {name: given[name] for name in given.keys() - {"payload", "name", "dedupe_key"}}
    return await job_store.value(
        FAULT,
        "echo",
        given.get("payload", {}),
        given.get("name"),
        given.get("dedupe_key"),
        options,
    )


def nested(depth: int) -> Any:
    return [] if depth == 1 else [nested(depth - 1)]


QUOTES = 2
# The most that a job may say, and how a job says so much.
IN_FUNCTION: dict[str, tuple[int, Callable[[int], Any]]] = {
    "name": (limits.LONGEST_JOB_NAME, lambda most: "x" * most),
    "dedupe_key": (limits.LONGEST_DEDUPE_KEY, lambda most: "x" * most),
    "payload": (limits.LARGEST_PAYLOAD - QUOTES, lambda most: "x" * most),
    "payload, nested": (limits.DEEPEST_JSON, nested),
    "priority": (limits.HIGHEST_PRIORITY, lambda most: most),
    "max_attempts": (limits.MOST_ATTEMPTS, lambda most: most),
    "timeout": (limits.LONGEST_TIMEOUT // timedelta(seconds=1), lambda most: most),
    "group": (limits.LONGEST_GROUP_KEY, lambda most: {"key": "x" * most}),
    "labels": (limits.MOST_LABELS, lambda most: {f"label{n}": "x" for n in range(most)}),
    "labels, name": (limits.LONGEST_WORD, lambda most: {"x" * most: "x"}),
    "labels, value": (limits.LONGEST_LABEL_VALUE, lambda most: {"x": "x" * most}),
    "runs_on": (limits.MOST_NODE_LABELS, lambda most: [f"label{n}" for n in range(most)]),
    "runs_on, label": (limits.LONGEST_WORD, lambda most: ["x" * most]),
    "group, max_running": (limits.MOST_RUNNING, lambda most: {"key": "x", "max_running": most}),
}


@pytest.mark.parametrize("what", IN_FUNCTION)
async def test_sql_takes_the_most_that_python_takes_and_no_more(
    job_store: JobStore, what: str
) -> None:
    most, say = IN_FUNCTION[what]
    field = what.partition(",")[0]
    assert await fault_of(job_store, **{field: say(most)}) is None
    assert field in str(await fault_of(job_store, **{field: say(most + 1)}))


async def test_sql_takes_the_shortest_timeout_and_no_shorter(job_store: JobStore) -> None:
    shortest = limits.SHORTEST_TIMEOUT.total_seconds()
    assert await fault_of(job_store, timeout=shortest) is None
    assert "timeout" in str(await fault_of(job_store, timeout=shortest * 0.9))
