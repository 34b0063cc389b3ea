"""Log lines: one event a line, the event's name first, everything else as fields.

The names are a fixed list, so that a person can search for them and a program can rely on them.
"""

import logging
import sys
from collections import Counter
from datetime import timedelta
from typing import Any, Final

import structlog

from evenbeat.config import Settings

# The life of a process.
STARTING: Final = "Evenbeat is starting"
READY: Final = "Evenbeat is ready"
WATCHED: Final = "Metrics can be read"
STOPPING: Final = "Evenbeat is stopping"
STOPPED: Final = "Evenbeat has stopped"
MIGRATED: Final = "Migration applied"
ROLLED_BACK: Final = "Migration rolled back"
SCHEMA_AWAITED: Final = "Waiting for the schema: run `evenbeat db migrate`, `up` or `server`"
LOOP_FAILED: Final = "Loop failed, will go on"

# The life of the embedded server.
POSTGRES_STARTED: Final = "PostgreSQL started"
POSTGRES_STOPPED: Final = "PostgreSQL stopped"
POSTGRES_DIED: Final = "PostgreSQL died"
POSTGRES_NOT_RESTARTED: Final = "PostgreSQL not restarted"

# The life of a node.
SCHEDULER_STARTING: Final = "Starting interval scheduler"
NODE_JOINED: Final = "Node joined"
NODE_LEFT: Final = "Node left"
NODE_LOST: Final = "Node is dead, its runs are taken over"
POLLING: Final = "Behind a pooler: polling, since no notification comes through"
LEASE_NOT_RENEWED: Final = "Lease not renewed"
RUN_CLOSED: Final = "Run closed"
HOUSEKEEPING_DONE: Final = "Housekeeping done"
SQL_SERVED: Final = "SQL functions run here"
SQL_UNRESTRICTED: Final = "SQL functions run with the rights of the engine"
SQL_NOT_SERVED: Final = "SQL functions do not run here"
RUN_ABANDONED: Final = "Run was told to stop and goes on, its end is written without it"
LINES_LOST: Final = "Log lines of runs are lost"

# The life of a job.
JOB_CREATED: Final = "Job created"
JOB_CHANGED: Final = "Job changed"
JOBS_CREATED: Final = "Jobs created"
NOT_DECLARED: Final = "Job is not in the code any more, and goes on: delete it if it is over"
JOB_STARTED: Final = "Executing job"
JOB_COMPLETED: Final = "Job completed successfully"
JOB_FAILED: Final = "Job execution failed"
LETTER_CHANGED: Final = "Dead letter changed"
GROUP_CHANGED: Final = "Group changed"
LEASE_CLEARED: Final = "Cleared stale lock"
RUN_FENCED: Final = "Run is not ours any more, its end was not written"

# Balancing.
MAP_REBUILT: Final = "Bucket map rebuilt"
JOB_PLACED: Final = "Placed new job"
JOB_REPLACED: Final = "Placed job anew"
JOB_RESCHEDULED: Final = "Rescheduled job (rhythm preserved)"
REBALANCED: Final = "Full rebalance completed"
REBALANCE_UNDONE: Final = "Rebalance undone"
JOB_SKIPPED: Final = "Job skipped during rebalance"

# Requests.
REQUEST_ANSWERED: Final = "Request answered"
REQUEST_FAILED: Final = "Request failed"
ANSWER_NOT_KEPT: Final = "Answer not kept: a repeated request will not be given it"
KEYS_NOT_READ: Final = "Public keys not read, those known are used"

# What uvicorn, asyncpg and asyncio have to say.
LIBRARY_SAID: Final = "A library said"


# Without the values of local variables: passwords are among them.
json_tracebacks = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


def configure(settings: Settings) -> None:
    """Write our events, and those of the libraries below us, to standard error."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = (
        [json_tracebacks, structlog.processors.JSONRenderer(default=str)]
        if settings.log_format == "json"
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    structlog.configure(
        processors=shared + last,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    # Their warnings are worth a line of ours.
    logging.basicConfig(
        handlers=[LibraryLogHandler()], level=max(level, logging.WARNING), force=True
    )


class LibraryLogHandler(logging.Handler):
    """Makes lines of ours of what libraries say through logging."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        fields: dict[str, Any] = {"library": record.name, "message": record.getMessage()}
        # A warning is of something that is tried again: its reason is enough, as asyncpg's for
        # each connection that it cannot restore while the database is away.
        if error is not None and record.levelno < logging.ERROR:
            fields["error"] = str(error) or type(error).__name__
        elif error is not None:
            fields["exc_info"] = error
        get_logger().log(record.levelno, LIBRARY_SAID, **fields)


# By the name of the loop. Of the process, as the log is.
loop_failures: Counter[str] = Counter()


def loop_failed(loop: str, error: Exception, *, with_trace: bool = False) -> None:
    """Tell that a turn of this loop failed, and count it: /metrics shows the count."""
    loop_failures[loop] += 1
    get_logger().warning(LOOP_FAILED, loop=loop, error=str(error), exc_info=with_trace)


def format_seconds(length: timedelta | None) -> str | None:
    """A measured duration, as in `2.5s`: to the millisecond, and always in one unit."""
    return None if length is None else f"{round(length.total_seconds(), 3):.12g}s"


def shows_info() -> bool:
    """Whether anybody would see an event of level info."""
    return structlog.get_logger().bind().is_enabled_for(logging.INFO)


def get_logger() -> Any:
    return structlog.get_logger()
