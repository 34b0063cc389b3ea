"""How a definition is written into columns and read back."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any, cast

import asyncpg

from evenbeat.core.backoff import Backoff, RetryRule
from evenbeat.core.model import AfterFailure, CatchUp, Definition, Policy
from evenbeat.core.timetable import Timetable


def columns(definition: Definition) -> dict[str, Any]:
    return {
        "name": definition.name,
        "kind": definition.kind,
        "payload": definition.payload,
        "timetable": definition.timetable.to_object(),
        "policy": encode_policy(definition.policy),
        "labels": definition.labels,
        "priority": definition.priority,
    }


def from_row(row: asyncpg.Record) -> Definition:
    return Definition(
        name=row["name"],
        kind=row["kind"],
        payload=row["payload"],
        timetable=Timetable.from_object(row["timetable"]),
        policy=decode_policy(row["policy"]),
        labels=row["labels"],
        priority=row["priority"],
    )


DEFAULT = Policy()


def encode_policy(policy: Policy) -> dict[str, Any]:
    """Only what differs from the defaults: most jobs then store an empty object."""
    return {
        each.name: encode(getattr(policy, each.name))
        for each in fields(policy)
        if getattr(policy, each.name) != getattr(DEFAULT, each.name)
    }


def encode(value: Any) -> Any:
    match value:
        case timedelta():
            return value.total_seconds()
        case Backoff():
            return value.to_object()
        case tuple():
            return [rule.to_object() for rule in cast("tuple[RetryRule, ...]", value)]
        case _:
            return value


DECODERS: dict[str, Callable[[Any], Any]] = {
    "backoff": Backoff.from_object,
    "retry_rules": lambda rules: tuple(map(RetryRule.from_object, rules)),
    "timeout": lambda seconds: timedelta(seconds=seconds),
    "start_deadline": lambda seconds: timedelta(seconds=seconds),
    "catch_up": CatchUp,
    "after_failure": AfterFailure,
}


def decode_policy(stored: Mapping[str, Any]) -> Policy:
    return Policy(**{name: DECODERS.get(name, same)(value) for name, value in stored.items()})


def same(value: Any) -> Any:
    return value
