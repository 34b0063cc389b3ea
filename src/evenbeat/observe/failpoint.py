"""Failpoints: named steps at which a proof kills, freezes or delays this process.

`EVENBEAT_FAILPOINT=claimed:kill` makes the process kill itself when it reaches the step `claimed`;
`claimed:kill:3` the third time. Without the variable a step costs one comparison.
"""

import os
import signal

STEPS = (
    "before_claim",
    "claimed",
    "before_handler",
    "after_handler",
    "before_complete",
    "completed",
    "before_unpark",
    "renewed",
    "marked_dead",
    "before_leave",
    "before_housekeeping_commit",
    "before_placement",
    "before_placement_commit",
    "before_rebalance_commit",
    "rebalanced",
)
# Steps of runs that call SQL functions.
SQL_STEPS = ("before_settle", "settled")
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}

# Removed from the environment: it is no setting, and child processes must not inherit it.
_name, _, _rest = os.environ.pop("EVENBEAT_FAILPOINT", "").partition(":")
_action, _, _count = _rest.partition(":")
_left = int(_count or 1)


def reach(step: str) -> None:
    """Call this where a named step has been reached."""
    if step == _name:
        _act()


def _act() -> None:
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), SIGNALS[_action])
