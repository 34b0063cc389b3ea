"""The driver's errors for a database that is unavailable, in three groups.

BUSY_ERRORS             it answers, but cannot do this now; the connection stays usable
READ_ONLY_ERRORS        it answers, but takes no writes; another server must be asked
CONNECTION_LOST_ERRORS  it does not answer; whether the statement took effect is not known
"""

import contextlib
from collections.abc import Generator

import asyncpg

from evenbeat.core.errors import NotPermitted, StoreUnavailable

# Class 40 (with deadlocks), class 53 (disk, memory, connections), a lock that was not available in
# time, and a statement that the server stopped.
BUSY_ERRORS = (
    asyncpg.TransactionRollbackError,
    asyncpg.InsufficientResourcesError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)
READ_ONLY_ERRORS = (asyncpg.ReadOnlySQLTransactionError,)
# Class 08 (with the errors of a pooler), class 57 (shut down, crashed, starting), class 58 (disk
# errors), and errors that the driver itself raises.
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
    """Raise StoreUnavailable instead of any of the driver's dozens of such errors."""
    try:
        yield
    except UNAVAILABLE_ERRORS as error:
        raise store_unavailable(error) from error


def store_unavailable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(describe_driver_error(error))


@contextlib.contextmanager
def translate_privilege_errors() -> Generator[None]:
    """Raise NotPermitted if the database's user lacks a right.

    This is for the command line, where a person chose that user. A client of the server cannot
    change it.
    """
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
    """The driver's message; after a lost connection it is about the driver, and is replaced."""
    is_about_driver = isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError)
    is_helpful = isinstance(error, ValueError | asyncpg.TargetServerAttributeNotMatched)
    if is_about_driver and not is_helpful:
        return "the connection was lost"
    # Further lines are hints for the administrator of the server, whose log has them too.
    return str(error).partition("\n")[0] or "timed out"


def breaks_connection(error: BaseException) -> bool:
    """Whether the connection must not be used again after this error."""
    cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
    return isinstance(cause, UNAVAILABLE_ERRORS) and not isinstance(cause, BUSY_ERRORS)


def breaks_all_connections(error: BaseException) -> bool:
    """Whether the other connections of the pool are broken too.

    After a cut of the network, each would notice only after its own timeout. A server that was
    demoted to a standby keeps answering all of them.
    """
    cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
    return isinstance(cause, TimeoutError | asyncpg.ReadOnlySQLTransactionError)
