"""SQL functions: what is wrong with one, calling one, and ending its run in its transaction."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from evenbeat.core.acceptance import LARGEST_RESULT, check_size
from evenbeat.core.model import Definition
from evenbeat.store import leases
from evenbeat.store.database import Database, Session
from evenbeat.store.leases import Settled
from evenbeat.store.statements import load

SQL = load("sql_functions")
KIND = "sql_function"
# A function, and whether it is given any arguments.
Call = tuple[str, bool]
# By call: "field: what to do about it".
Faults = Mapping[Call | None, str]
# PostgreSQL writes JSON with spaces, and more digits than there need be.
MOST_BYTES = 4 * LARGEST_RESULT
PARAMETER = re.compile(r':[a-z_]+::("?[a-z]+"?\[\])')


async def install(database: Database) -> None:
    """Have the function that ends runs made of the statement that does so everywhere else."""
    completion = leases.SQL["complete"]
    await database.fetch(
        SQL["make_settle_run"],
        signature=", ".join(PARAMETER.findall(completion.template)),
        completion=completion.text(database.clock),
    )


def call_of(definition: Definition) -> Call | None:
    """The function that a job names, and whether it is given any arguments; None where the job
    is of another kind, or says something else."""
    payload = definition.payload
    if definition.kind != KIND or not isinstance(payload, dict):
        return None
    given = cast("dict[str, Any]", payload)
    function = given.get("function")
    return (function, bool(given.get("arguments"))) if isinstance(function, str) else None


async def faults(session: Session, calls: Sequence[Call]) -> Faults:
    """What is wrong with those calls of which something is."""
    rows = await session.fetch(
        SQL["faults"],
        functions=[function for function, _ in calls],
        have_arguments=[has_arguments for _, has_arguments in calls],
    )
    return {call: row["fault"] for call, row in zip(calls, rows, strict=True) if row["fault"]}


async def call(session: Session, function: str, arguments: Any) -> bytes | None:
    """What the function returns, as JSON; its errors come as the driver raises them."""
    row = await session.fetch_row(
        SQL["call"], function=function, arguments=arguments, most_bytes=MOST_BYTES
    )
    size, answer = row or (None, None)
    if size is not None and answer is None:
        check_size(size)
    # What it has set for itself ends here, so that its deferred triggers have no more time than it.
    await session.execute(SQL["forget_settings"])
    await session.execute(SQL["fire_deferred_triggers"])
    return answer


async def settle(session: Session, settled: Settled) -> frozenset[int]:
    """Write the end of the run; says in which groups a place comes free with the commit."""
    await session.execute(SQL["forget_settings"])
    await session.execute(SQL["forget_role"])
    row = await session.fetch_row(leases.SQL["settle_run"], **leases.arrays([settled]))
    return frozenset((row and row["group_ids"]) or ())


async def is_written(database: Database, settled: Settled) -> bool:
    """Whether a commit that was never answered has written this end: asked once it is over."""
    run, job_id = settled.claimed.run, settled.claimed.id
    if await database.fetch_row(leases.SQL["still_held"], job_id=job_id, token=run.token):
        return False
    return bool(await leases.already_written(database, [settled]))
