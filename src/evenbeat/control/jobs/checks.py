"""What a definition must be like to be stored: whatever the tables would refuse, told by field."""

from datetime import timedelta
from typing import Any

import asyncpg

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import Definition, Policy
from evenbeat.core.jobs.payload import check_json, check_text
from evenbeat.core.limits import (
    HIGHEST_PRIORITY,
    LONGEST_DEDUPE_KEY,
    LONGEST_DURATION,
    LONGEST_ERROR_NAME,
    LONGEST_JOB_NAME,
    LONGEST_LABEL_VALUE,
    LONGEST_TIMEOUT,
    LONGEST_WORD,
    MAX_BEATS,
    MOST_ATTEMPTS,
    MOST_FAILURES_BEFORE_PAUSE,
    MOST_LABELS,
    MOST_NODE_LABELS,
    MOST_RETRY_RULES,
    SHORTEST_TIMEOUT,
)
from evenbeat.core.time.durations import describe_duration


def check_definition(definition: Definition) -> None:
    """Raise InvalidInput, naming the field, for what could not be stored or would never work."""
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


def check_dedupe_key(key: Any) -> None:
    check_word(key, "dedupe_key", LONGEST_DEDUPE_KEY)


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
