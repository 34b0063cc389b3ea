"""Log lines: one event a line, the event's name first, everything else as fields.

The names are a fixed list, so that a person can search for them and a program can rely on them.
"""

import logging
import sys
from typing import Any, Final

import structlog

from evenbeat.config import Settings

# The life of a process.
STARTING: Final = "Evenbeat is starting"
READY: Final = "Evenbeat is ready"
STOPPING: Final = "Evenbeat is stopping"
STOPPED: Final = "Evenbeat has stopped"
MIGRATED: Final = "Migration applied"
ROLLED_BACK: Final = "Migration rolled back"
SCHEMA_AWAITED: Final = "Waiting for the schema: run `evenbeat db migrate`, `up` or `server`"
LOOP_FAILED: Final = "Loop failed, will go on"

# The life of a node.
NODE_JOINED: Final = "Node joined"
NODE_LEFT: Final = "Node left"
NODE_LOST: Final = "Node is dead, its runs are taken over"
LEASE_NOT_RENEWED: Final = "Lease not renewed"
RUN_CLOSED: Final = "Run closed"

# The life of a job.
JOB_CREATED: Final = "Job created"
JOB_STARTED: Final = "Job started"
JOB_COMPLETED: Final = "Job completed successfully"
JOB_FAILED: Final = "Job failed"
RUN_FENCED: Final = "Run is not ours any more, its end was not written"

REQUEST_FAILED: Final = "Request failed"


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
    # uvicorn and asyncpg speak through logging; their warnings are worth a line of ours.
    logging.basicConfig(stream=sys.stderr, level=max(level, logging.WARNING), format="%(message)s")


def get_logger() -> Any:
    return structlog.get_logger()
