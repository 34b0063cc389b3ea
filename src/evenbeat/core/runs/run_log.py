"""The log of a run: lines that its handler writes and that are kept with the run."""

from dataclasses import dataclass
from typing import Literal, get_args

Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)
# Of one run; each is as long as an error may be.
MOST_LINES = 1000
NO_MORE = f"What follows is not kept: a run has {MOST_LINES:,} lines at most."


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log of a run."""

    run_id: int
    level: Level
    message: str
