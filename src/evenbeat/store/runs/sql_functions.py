"""Calls SQL functions, and writes the end of their runs in the same transaction."""

import re
from typing import Any

from evenbeat.core.limits import LARGEST_RESULT
from evenbeat.core.runs.outcome import check_result_size
from evenbeat.core.runs.settle import SettledRun
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.database.statements import load_statements
from evenbeat.store.runs import completions

SQL = load_statements("runs/sql_functions")
# PostgreSQL writes JSON with spaces and long numbers: larger than the result that is checked later.
MOST_BYTES = 4 * LARGEST_RESULT
PARAMETER = re.compile(r':[a-z_]+::("?[a-z]+"?\[\])')


async def install_settle_function(database: Database) -> None:
    """Make evenbeat.settle_run from the statement that completes runs everywhere else."""
    completion = completions.SQL["complete"]
    await database.fetch(
        SQL["make_settle_run"],
        signature=", ".join(PARAMETER.findall(completion.template)),
        completion=completion.text(database.clock),
    )


async def call_function(session: Session, function: str, arguments: Any) -> bytes | None:
    """The result of the function as JSON; its errors are raised as the driver raises them."""
    row = await session.fetch_row(
        SQL["call"], function=function, arguments=arguments, most_bytes=MOST_BYTES
    )
    size, answer = row or (None, None)
    if size is not None and answer is None:
        check_result_size(size)
    # The function's own settings end here, so that deferred triggers keep to its statement timeout.
    await session.execute(SQL["forget_settings"])
    await session.execute(SQL["fire_deferred_triggers"])
    return answer


async def settle_run(session: Session, settled: SettledRun) -> frozenset[int]:
    """Write the end of the run; returns the groups in which the commit frees a place."""
    await session.execute(SQL["forget_settings"])
    await session.execute(SQL["forget_role"])
    row = await session.fetch_row(
        completions.SQL["settle_run"], **completions.settled_columns([settled])
    )
    return frozenset((row and row["group_ids"]) or ())


async def is_end_written(database: Database, settled: SettledRun) -> bool:
    """Whether a commit whose answer was lost has written this end; waits until it is over."""
    run, job_id = settled.claimed.run, settled.claimed.id
    if await database.fetch_row(completions.SQL["still_held"], job_id=job_id, token=run.token):
        return False
    return bool(await completions.find_written_runs(database, [settled]))
