"""SQL functions: what is wrong with one, calling one, and ending its run in its transaction."""

import re
from collections.abc import Sequence
from typing import Any

from evenbeat.store import leases
from evenbeat.store.database import Database, Session
from evenbeat.store.leases import Settled
from evenbeat.store.route import Json
from evenbeat.store.statements import load

SQL = load("sql_functions")
KIND = "sql_function"
PARAMETER = re.compile(r':[a-z_]+::("?[a-z]+"?\[\])')


async def install(database: Database) -> None:
    """Have the function that ends runs made of the statement that does so everywhere else."""
    completion = leases.SQL["complete"]
    await database.fetch(
        SQL["make_settle_run"],
        signature=", ".join(PARAMETER.findall(completion.template)),
        completion=completion.text(database.clock),
    )


async def faults(session: Session, calls: Sequence[tuple[str, Any]]) -> list[str | None]:
    """What is wrong with each call, as "field: what to do about it"; None: nothing."""
    rows = await session.fetch(
        SQL["faults"],
        functions=[function for function, _ in calls],
        arguments=[Json(arguments) for _, arguments in calls],
    )
    return [row["fault"] for row in rows]


async def call(session: Session, function: str, arguments: Any) -> str | None:
    """What the function returns, as JSON; its errors come as the driver raises them."""
    answer = await session.fetch_value(SQL["call"], function=function, arguments=arguments)
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
