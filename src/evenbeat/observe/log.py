"""Log lines: one event a line, the event's name first, everything else as fields.

The names are a fixed list, so that people can search for them and programs can rely on them.
"""

import logging
import sys
from collections import Counter
from datetime import timedelta
from typing import Any, Final

import structlog

from evenbeat.config import Settings

# A process.
STARTING: Final = "Evenbeat is starting"
READY: Final = "Evenbeat is ready"
WATCHED: Final = "Metrics can be read"
STOPPING: Final = "Evenbeat is stopping"
STOPPED: Final = "Evenbeat has stopped"
MIGRATED: Final = "Migration applied"
ROLLED_BACK: Final = "Migration rolled back"
SCHEMA_AWAITED: Final = "Waiting for the schema: run `evenbeat db migrate`, `up` or `server`"
LOOP_FAILED: Final = "Loop failed, will try again"

# The embedded server.
POSTGRES_STARTED: Final = "PostgreSQL started"
POSTGRES_STOPPED: Final = "PostgreSQL stopped"
POSTGRES_DIED: Final = "PostgreSQL died"
POSTGRES_NOT_RESTARTED: Final = "PostgreSQL not restarted"

# A node.
SCHEDULER_STARTING: Final = "Starting interval scheduler"
NODE_JOINED: Final = "Node joined"
NODE_LEFT: Final = "Node left"
NODE_LOST: Final = "Node is dead, its runs are taken over"
POLLING: Final = "Behind a pooler: polling, since notifications do not come through"
LEASE_NOT_RENEWED: Final = "Lease not renewed"
RUN_CLOSED: Final = "Run closed"
HOUSEKEEPING_DONE: Final = "Housekeeping done"
SQL_SERVED: Final = "SQL functions run here"
SQL_UNRESTRICTED: Final = "SQL functions run with the rights of the engine"
SQL_NOT_SERVED: Final = "SQL functions do not run here"
RUN_ABANDONED: Final = "Run did not stop when asked, its end is recorded without it"
LINES_LOST: Final = "Log lines of runs are lost"

# Jobs and runs.
JOB_CREATED: Final = "Job created"
JOB_CHANGED: Final = "Job changed"
JOBS_CREATED: Final = "Jobs created"
NOT_DECLARED: Final = (
    "Job is no longer declared in the code and still runs: delete it if it is obsolete"
)
JOB_STARTED: Final = "Executing job"
JOB_COMPLETED: Final = "Job completed successfully"
JOB_FAILED: Final = "Job execution failed"
LETTER_CHANGED: Final = "Dead letter changed"
GROUP_CHANGED: Final = "Group changed"
LEASE_CLEARED: Final = "Cleared stale lock"
RUN_FENCED: Final = "Run lost its lease, its end was not recorded"

# Balancing.
MAP_REBUILT: Final = "Bucket map rebuilt"
JOB_PLACED: Final = "Placed new job"
JOB_REPLACED: Final = "Placed job again"
JOB_RESCHEDULED: Final = "Rescheduled job (rhythm preserved)"
REBALANCED: Final = "Full rebalance completed"
REBALANCE_UNDONE: Final = "Rebalance undone"
JOB_SKIPPED: Final = "Job skipped during rebalance"

# Requests.
REQUEST_ANSWERED: Final = "Request answered"
REQUEST_FAILED: Final = "Request failed"
ANSWER_NOT_KEPT: Final = "Answer not stored: a repeated request will not get it"
KEYS_NOT_READ: Final = "Public keys not read, the known ones stay in use"

# Messages of uvicorn, asyncpg and asyncio.
LIBRARY_SAID: Final = "Library message"


# Without the values of local variables: they may be passwords.
json_tracebacks = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


def configure(settings: Settings) -> None:
    """Write our events, and messages of libraries, to standard error."""
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
    # Of libraries, only warnings and errors.
    logging.basicConfig(
        handlers=[LibraryLogHandler()], level=max(level, logging.WARNING), force=True
    )


class LibraryLogHandler(logging.Handler):
    """Writes what libraries log through `logging` as events of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        fields: dict[str, Any] = {"library": record.name, "message": record.getMessage()}
        # No traceback for warnings: while the database is away, asyncpg warns of each connection
        # that it cannot restore.
        if error is not None and record.levelno < logging.ERROR:
            fields["error"] = str(error) or type(error).__name__
        elif error is not None:
            fields["exc_info"] = error
        get_logger().log(record.levelno, LIBRARY_SAID, **fields)


# By the name of the loop; one count per process.
loop_failures: Counter[str] = Counter()


def loop_failed(loop: str, error: Exception, *, with_trace: bool = False) -> None:
    """Log that a turn of this loop failed, and count it: /metrics shows the count."""
    loop_failures[loop] += 1
    get_logger().warning(LOOP_FAILED, loop=loop, error=str(error), exc_info=with_trace)


def format_seconds(length: timedelta | None) -> str | None:
    """A measured duration, as in `2.5s`: to the millisecond, always in seconds."""
    return None if length is None else f"{round(length.total_seconds(), 3):.12g}s"


def shows_info() -> bool:
    """Whether events of level info are written."""
    return structlog.get_logger().bind().is_enabled_for(logging.INFO)


def get_logger() -> Any:
    return structlog.get_logger()
