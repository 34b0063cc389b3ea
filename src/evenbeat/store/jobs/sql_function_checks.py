"""Jobs that call a SQL function: which function a job calls, and what is wrong with it."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from evenbeat.core.jobs.model import Definition
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("jobs/sql_function_checks")
KIND = "sql_function"
# A function, and whether the job gives it any arguments.
FunctionCall = tuple[str, bool]
# By call: "field: what to do about it".
CallFaults = Mapping[FunctionCall | None, str]


def find_function_call(definition: Definition) -> FunctionCall | None:
    """The function that a job calls; None if the job is of another kind, or names no function."""
    payload = definition.payload
    if definition.kind != KIND or not isinstance(payload, dict):
        return None
    given = cast("dict[str, Any]", payload)
    function = given.get("function")
    return (function, bool(given.get("arguments"))) if isinstance(function, str) else None


async def find_call_faults(session: Session, definitions: Iterable[Definition]) -> CallFaults:
    """The calls of these jobs that cannot work, each with its fault."""
    calls = list({call for each in definitions if (call := find_function_call(each))})
    rows = await session.fetch(
        SQL["faults"],
        functions=[function for function, _ in calls],
        have_arguments=[has_arguments for _, has_arguments in calls],
    )
    return {call: row["fault"] for call, row in zip(calls, rows, strict=True) if row["fault"]}
