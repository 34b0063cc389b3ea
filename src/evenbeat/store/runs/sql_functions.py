"""SQL functions: what is wrong with one, calling one, and ending its run in its transaction."""

import re
from typing import Any

from evenbeat.core.limits import LARGEST_RESULT
from evenbeat.core.runs.outcome import check_result_size
from evenbeat.core.runs.settle import SettledRun
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.runs import completions

SQL = load_statements("runs/sql_functions")
# PostgreSQL writes JSON with spaces, and more digits than there need be.
MOST_BYTES = 4 * LARGEST_RESULT
PARAMETER = re.compile(r':[a-z_]+::("?[a-z]+"?\[\])')


async def install_settle_function(database: Database) -> None:
    """Have the function that ends runs made of the statement that does so everywhere else."""
    completion = completions.SQL["complete"]
    await database.fetch(
        SQL["make_settle_run"],
        signature=", ".join(PARAMETER.findall(completion.template)),
        completion=completion.text(database.clock),
    )


async def call_function(session: Session, function: str, arguments: Any) -> bytes | None:
    """What the function returns, as JSON; its errors come as the driver raises them."""
    row = await session.fetch_row(
        SQL["call"], function=function, arguments=arguments, most_bytes=MOST_BYTES
    )
    size, answer = row or (None, None)
    if size is not None and answer is None:
        check_result_size(size)
    # What it has set for itself ends here, so that its deferred triggers have no more time than it.
    await session.execute(SQL["forget_settings"])
    await session.execute(SQL["fire_deferred_triggers"])
    return answer


async def settle_run(session: Session, settled: SettledRun) -> frozenset[int]:
    """Write the end of the run; says in which groups a place comes free with the commit."""
    await session.execute(SQL["forget_settings"])
    await session.execute(SQL["forget_role"])
    row = await session.fetch_row(
        completions.SQL["settle_run"], **completions.settled_columns([settled])
    )
    return frozenset((row and row["group_ids"]) or ())


async def is_end_written(database: Database, settled: SettledRun) -> bool:
    """Whether a commit that was never answered has written this end: asked once it is over."""
    run, job_id = settled.claimed.run, settled.claimed.id
    if await database.fetch_row(completions.SQL["still_held"], job_id=job_id, token=run.token):
        return False
    return bool(await completions.find_written_runs(database, [settled]))
