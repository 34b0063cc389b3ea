"""The one-letter codes of states and causes in the tables, and their meaning."""

from evenbeat.core.jobs.model import Cause, RunState, State

STATES = {
    b"p": State.PENDING,
    b"s": State.SCHEDULED,
    b"b": State.BLOCKED,
    b"r": State.RUNNING,
    b"z": State.PAUSED,
    b"c": State.COMPLETED,
    b"f": State.FAILED,
    b"x": State.CANCELLED,
    b"d": State.DISABLED,
}
RUN_STATES = {
    b"r": RunState.RUNNING,
    b"c": RunState.COMPLETED,
    b"f": RunState.FAILED,
    b"x": RunState.CANCELLED,
    b"k": RunState.SKIPPED,
}
CAUSES = {
    b"s": Cause.SCHEDULE,
    b"u": Cause.CATCHUP,
    b"m": Cause.MANUAL,
    b"t": Cause.RETRY,
}

CODE_OF_STATE = {word: code for code, word in STATES.items()}
CODE_OF_RUN_STATE = {word: code for code, word in RUN_STATES.items()}
