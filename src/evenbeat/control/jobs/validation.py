"""What a definition must be like to become a job, and what is said of one that has to wait."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import asyncpg
import orjson

from evenbeat.core.errors import InvalidInput, UnknownKind
from evenbeat.core.jobs.groups import Group, resolve_group_key
from evenbeat.core.jobs.model import Definition, Policy
from evenbeat.core.jobs.payload import check_json, check_text
from evenbeat.core.limits import (
    HIGHEST_PRIORITY,
    LARGEST_PAYLOAD,
    LONGEST_DEDUPE_KEY,
    LONGEST_DURATION,
    LONGEST_ERROR_NAME,
    LONGEST_JOB_NAME,
    LONGEST_LABEL_VALUE,
    LONGEST_TIMEOUT,
    LONGEST_WORD,
    MAX_BEATS,
    MOST_ADDED_AT_ONCE,
    MOST_ATTEMPTS,
    MOST_FAILURES_BEFORE_PAUSE,
    MOST_LABELS,
    MOST_NODE_LABELS,
    MOST_RETRY_RULES,
    SHORTEST_TIMEOUT,
)
from evenbeat.core.runs.registry import SWITCHES, Registry, describe_unserved_kind
from evenbeat.core.time.durations import describe_duration
from evenbeat.core.time.timetable import Timetable
from evenbeat.store.database.pool import Session
from evenbeat.store.jobs import sql_function_checks
from evenbeat.store.jobs.sql_function_checks import CallFaults
from evenbeat.store.ops import nodes
from evenbeat.store.ops.nodes import StoredNode

NewJobEntry = Definition | tuple[Definition, str | None]


class Validator:
    """Checks definitions; checks a policy that many of them share once."""

    def __init__(
        self, registry: Registry, known_kinds: Collection[str], faults: CallFaults
    ) -> None:
        """`known_kinds` are those that any node ever served; `faults` are those of SQL functions
        that the definitions call."""
        self._registry = registry
        self._known_kinds = known_kinds
        self._faults = faults
        # By identity, which is quick to compare: the policies outlive this object.
        self._checked_policies: set[int] = set()

    def validate(self, definition: Definition, dedupe_key: str | None = None) -> str:
        """The payload as JSON; raises InvalidInput, which names the field, for what cannot work."""
        if dedupe_key is not None:
            check_word(dedupe_key, "dedupe_key", LONGEST_DEDUPE_KEY)
        check_definition(definition)
        if id(definition.policy) not in self._checked_policies:
            check_policy(definition.policy)
            self._checked_policies.add(id(definition.policy))
        payload = orjson.dumps(definition.payload)
        if len(payload) > LARGEST_PAYLOAD:
            raise InvalidInput("payload", f"is larger than {LARGEST_PAYLOAD:,} bytes as JSON")
        self._check_kind(definition)
        if self._faults:
            self._check_function(definition)
        return payload.decode()

    def _check_kind(self, definition: Definition) -> None:
        kind = self._registry.kinds.get(definition.kind)
        if kind is not None:
            kind.check(definition.payload)
        elif definition.kind not in self._known_kinds:
            known = sorted({*self._registry, *self._known_kinds})
            raise UnknownKind(definition.kind, known)

    def _check_function(self, definition: Definition) -> None:
        fault = self._faults.get(sql_function_checks.find_function_call(definition))
        if fault is not None:
            field, _, message = fault.partition(": ")
            raise InvalidInput(f"payload.{field}", message)


def check_definition(definition: Definition) -> None:
    """Raise InvalidInput, which names the field, if the tables would refuse the definition."""
    check_word(definition.kind, "kind", LONGEST_WORD)
    if definition.name is not None:
        check_word(definition.name, "name", LONGEST_JOB_NAME)
    check_whole(definition.priority, "priority", 0, HIGHEST_PRIORITY)
    check_json(definition.payload, "payload")
    if definition.labels:
        check_labels(definition.labels)
    if definition.runs_on:
        check_runs_on(definition.runs_on)


def check_policy(policy: Policy) -> None:
    check_whole(policy.max_attempts, "max_attempts", 1, MOST_ATTEMPTS)
    check_span(policy.timeout, "timeout", LONGEST_TIMEOUT)
    check_whole(policy.catch_up_cap, "catch_up_cap", 1, MAX_BEATS)
    if policy.start_deadline is not None:
        check_span(policy.start_deadline, "start_deadline", LONGEST_DURATION)
    if policy.pause_after_failures is not None:
        check_whole(
            policy.pause_after_failures, "pause_after_failures", 1, MOST_FAILURES_BEFORE_PAUSE
        )
    if len(policy.retry_rules) > MOST_RETRY_RULES:
        raise InvalidInput("retry_rules", f"must be at most {MOST_RETRY_RULES}")
    for place, rule in enumerate(policy.retry_rules):
        check_word(rule.error, f"retry_rules[{place}].error", LONGEST_ERROR_NAME)


def check_labels(labels: dict[str, str]) -> None:
    if len(labels) > MOST_LABELS:
        raise InvalidInput("labels", f"must be at most {MOST_LABELS} names with their values")
    for name, value in labels.items():
        check_word(name, "labels", LONGEST_WORD)
        # A label without a value is a tag.
        if value != "":
            check_word(value, f"labels.{name}", LONGEST_LABEL_VALUE)


def check_runs_on(labels: tuple[str, ...]) -> None:
    if len(labels) > MOST_NODE_LABELS:
        raise InvalidInput("runs_on", f"must be at most {MOST_NODE_LABELS} labels")
    for place, label in enumerate(labels):
        check_word(label, f"runs_on[{place}]", LONGEST_WORD)


def check_word(text: Any, field: str, longest: int) -> None:
    if not isinstance(text, str):
        raise InvalidInput(field, "must be text")
    if text.isascii() and text.isalnum() and len(text) <= longest:
        return
    if not 1 <= len(text) <= longest:
        raise InvalidInput(field, f"must have 1 to {longest} characters")
    check_text(text, field)
    if text.isspace():
        raise InvalidInput(field, "must not be blank")


def check_whole(number: Any, field: str, least: int, most: int) -> None:
    if type(number) is not int or not least <= number <= most:
        raise InvalidInput(field, f"must be a whole number from {least} to {most}")


def check_span(span: Any, field: str, longest: timedelta) -> None:
    if not isinstance(span, timedelta) or not SHORTEST_TIMEOUT <= span <= longest:
        raise InvalidInput(field, f"must be from 1 millisecond to {describe_duration(longest)}")


def check_connection(connection: Any) -> None:
    if connection is not None and not isinstance(connection, asyncpg.Connection):
        raise InvalidInput(
            "connection",
            "must be one of asyncpg; on those of other drivers, call select evenbeat.enqueue(…)",
        )


def read_entries(entries: Iterable[Any]) -> Iterator[tuple[Definition, str | None]]:
    for position, entry in enumerate(entries):
        if position == MOST_ADDED_AT_ONCE:
            raise InvalidInput("jobs", f"must be at most {MOST_ADDED_AT_ONCE:,} at once")
        pair = cast("Sequence[Any]", entry if isinstance(entry, tuple) else (entry, None))
        if len(pair) != 2 or not isinstance(pair[0], Definition):
            what = "must be a definition, or a pair of one and its dedupe key"
            raise InvalidInput(f"jobs[{position}]", what)
        yield pair[0], pair[1]


def check_name_is_new(name: str, position: int, names: dict[str, int]) -> None:
    if names.setdefault(name, position) != position:
        raise InvalidInput("name", f"is that of jobs[{names[name]}] as well")


def resolved_group(definition: Definition) -> Group | None:
    """The job's group, with the parts of its key filled in from the job."""
    if definition.group is None:
        return None
    facts = {
        "kind": definition.kind,
        "name": definition.name,
        "payload": definition.payload,
        "labels": definition.labels,
    }
    return replace(definition.group, key=resolve_group_key(definition.group.key, facts))


def as_stored(definition: Definition, timetable: Timetable) -> Definition:
    """The definition as it is read back; the limits of its group are stored with the group."""
    group = resolved_group(definition)
    return replace(
        definition,
        timetable=timetable,
        payload=as_json_value(definition.payload),
        labels=as_json_value(definition.labels) if definition.labels else {},
        group=group and Group(group.key, job_limit=group.job_limit),
        runs_on=tuple(sorted(set(definition.runs_on))),
    )


def as_json_value(value: Any) -> Any:
    """A copy as JSON gives it back: with lists for tuples."""
    return orjson.loads(orjson.dumps(value))


async def unserved_warnings(session: Session, definitions: Iterable[Definition]) -> tuple[str, ...]:
    """A warning for each kind that a node serves only if its settings say so, if no living node
    that may run these jobs does. Of other kinds no warning is given."""
    optional = (each for each in definitions if each.kind in SWITCHES)
    asked = sorted({(each.kind, tuple(sorted(set(each.runs_on)))) for each in optional})
    if not asked:
        return ()
    living = [node for node in await nodes.list_nodes(session, dead=0) if node.is_alive]
    return tuple(
        describe_unserved_kind(kind, runs_on)
        for kind, runs_on in asked
        if not any(can_node_run(node, kind, runs_on) for node in living)
    )


def can_node_run(node: StoredNode, kind: str, runs_on: Iterable[str]) -> bool:
    return kind in node.kinds and set(runs_on) <= set(node.labels)
