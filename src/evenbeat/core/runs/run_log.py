"""What a run says while it runs: lines that are kept with it."""

from dataclasses import dataclass
from typing import Literal, get_args

Level = Literal["debug", "info", "warning", "error"]
LEVELS: tuple[Level, ...] = get_args(Level)
# Of one run; each is as long as an error may be.
MOST_LINES = 1000
NO_MORE = f"What follows is not kept: a run has {MOST_LINES:,} lines at most."


@dataclass(frozen=True, slots=True)
class LogLine:
    """What a run said."""

    run_id: int
    level: Level
    message: str
