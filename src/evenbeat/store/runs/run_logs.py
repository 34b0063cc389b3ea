"""Log lines of runs."""

from collections.abc import Sequence

from evenbeat.core.runs.run_log import LogLine
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("runs/run_logs")


async def append(session: Session, lines: Sequence[LogLine]) -> None:
    """Store these lines, in this order."""
    await session.execute(
        SQL["append"],
        run_ids=[line.run_id for line in lines],
        levels=[line.level for line in lines],
        messages=[line.message for line in lines],
    )
