"""The many things that the driver says when the database cannot be had, sorted once.

BUSY    it answers, and cannot do this now: the connection is as good as before
DEMOTED it answers, and takes no writes: another server is the one to ask
all else, a lost connection among it: what became of the statement is not known
"""

import contextlib
from collections.abc import Generator

import asyncpg

from evenbeat.core.errors import NotPermitted, StoreUnavailable

# Class 40 (deadlocks among it), class 53 (disk, memory, connections), a wait for a lock, and a
# statement that the server itself has stopped.
BUSY_ERRORS = (
    asyncpg.TransactionRollbackError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)
READ_ONLY_ERRORS = (asyncpg.ReadOnlySQLTransactionError,)
# Class 08 (a pooler's complaints among it), class 57 (shut down, crashed, starting), class 58 (the
# disk answers with errors), and whatever the driver finds out by itself.
CONNECTION_LOST_ERRORS = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresSystemError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
UNAVAILABLE_ERRORS = (*BUSY_ERRORS, *READ_ONLY_ERRORS, *CONNECTION_LOST_ERRORS)


@contextlib.contextmanager
def translate_driver_errors() -> Generator[None]:
    """Say StoreUnavailable where the driver says any of some dozens of things."""
    try:
        yield
    except UNAVAILABLE_ERRORS as error:
        raise StoreUnavailable(describe_driver_error(error)) from error


@contextlib.contextmanager
def translate_privilege_errors() -> Generator[None]:
    """Say NotPermitted where the database's user lacks a right: for people at a command line,
    who chose that user; of a server it is no client's doing."""
    try:
        yield
    except asyncpg.InsufficientPrivilegeError as error:
        raise NotPermitted(
            f"the database's user may not do this: {driver_message(error)}; use the one that "
            "the server uses, in EVENBEAT_DATABASE_URL"
        ) from error


def describe_driver_error(error: Exception) -> str:
    why = driver_message(error)
    match error:
        case asyncpg.DiskFullError():
            return f"the database's disk is full: {why}"
        case asyncpg.ReadOnlySQLTransactionError():
            return f"the database takes no writes, since it is a standby or read-only: {why}"
        case _ if isinstance(error, BUSY_ERRORS):
            return f"the database cannot do this now: {why}"
        case _:
            return f"the database does not answer: {why}"


def driver_message(error: Exception) -> str:
    """What the driver says, but for what it says about itself after a connection was lost."""
    is_about_itself = isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError)
    is_telling = isinstance(error, ValueError | asyncpg.TargetServerAttributeNotMatched)
    if is_about_itself and not is_telling:
        return "the connection was lost"
    # What comes in further lines are hints for whoever looks after the server: its log has them.
    return str(error).partition("\n")[0] or "timed out"


def breaks_connection(error: BaseException) -> bool:
    """Whether the connection is not to be used again after this."""
    cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
    return isinstance(cause, UNAVAILABLE_ERRORS) and not isinstance(cause, BUSY_ERRORS)


def breaks_all_connections(error: BaseException) -> bool:
    """Whether what one connection has found out is true of its neighbours too.

    A cut network shows on each of them only after its own time limit, and a demoted server keeps
    answering all of them.
    """
    cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
    return isinstance(cause, TimeoutError | asyncpg.ReadOnlySQLTransactionError)
