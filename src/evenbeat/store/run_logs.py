"""Log lines of runs."""

from collections.abc import Sequence

from evenbeat.core.run_log import LogLine
from evenbeat.store.database import Session
from evenbeat.store.statements import load

SQL = load("run_logs")


async def append(session: Session, lines: Sequence[LogLine]) -> None:
    await session.execute(
        SQL["append"],
        run_ids=[line.run_id for line in lines],
        levels=[line.level for line in lines],
        messages=[line.message for line in lines],
    )
