"""Log lines of runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evenbeat.store.database import Session
from evenbeat.store.statements import load

SQL = load("run_logs")
Level = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class LogLine:
    """What a run said."""

    level: Level
    message: str


async def append(session: Session, run_id: int, lines: Sequence[LogLine]) -> None:
    await session.execute(
        SQL["append"],
        run_id=run_id,
        levels=[line.level for line in lines],
        messages=[line.message for line in lines],
    )
