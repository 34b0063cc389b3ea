"""sql_function: calls a function of the database, in one transaction with the end of its run.

What the function does, the record of the run and the next beat are committed together, so that
each beat has its effect exactly once: whoever dies on the way, or is too late, undoes all of it.
"""

import asyncio
import contextlib
import re
import time
from datetime import timedelta
from typing import Any, cast

import asyncpg
import orjson

from evenbeat.config import Settings
from evenbeat.core.errors import InvalidInput, NotPermitted, StoreUnavailable
from evenbeat.core.jobs.model import ErrorClass
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import DONE, Done, Failed, Outcome, check_result, make_storable
from evenbeat.core.runs.run_log import Level
from evenbeat.core.runs.secrets import Secrets, check_references
from evenbeat.core.runs.settle import Recorded, SettledRun, settle
from evenbeat.observe import failpoint, log
from evenbeat.store.database.clock import DatabaseClock
from evenbeat.store.database.pool import Database
from evenbeat.store.jobs import sql_function_checks
from evenbeat.store.runs import sql_functions
from evenbeat.store.runs.sql_login import SqlLogin

FIELDS = ("function", "arguments")
PART = r'(?:[^\W\d][\w$]*|"(?:[^"]|"")+")'
NAME = re.compile(rf"{PART}\.{PART}")
LONGEST_NAME = 200
LEVELS: dict[str, Level] = {"DEBUG": "debug", "WARNING": "warning"}
MILLISECOND = timedelta(milliseconds=1)
# How long to wait until the database is asked again what became of a commit.
ASK_AGAIN = 0.5
# How long a function that is done waits until what it said is written.
LONGEST_WRITING = 1.0


class SqlFunction:
    """Known everywhere; served by nodes, once they have a login for it (`serve`)."""

    kind = sql_function_checks.KIND

    def __init__(self) -> None:
        self.most_at_once: int | None = None
        self._database: Database | None = None
        self._login: SqlLogin | None = None
        self._watch: DatabaseClock | None = None

    async def serve(self, database: Database, settings: Settings) -> None:
        """Make ready to run functions of this database. Raises NotPermitted if that cannot be."""
        given = settings.sql_url
        if database.route.is_pooled and given is None:
            # The sessions of a pooler are everybody's, with whatever a function leaves in them.
            raise NotPermitted("a pooler is in between: set sql_url to a login that goes past it")
        login = SqlLogin(database, None if given is None else given.get_secret_value())
        try:
            await login.prepare()
        except asyncpg.InsufficientPrivilegeError as error:
            raise NotPermitted(f"the engine does not own what it needs for it: {error}") from error
        except StoreUnavailable as error:
            # Tried again by the first run: the node goes on, as it does when its database is away.
            log.loop_failed("sql_function", error)
        self.most_at_once = settings.sql_connections
        # Hardly ever waited for: but jobs of groups are claimed by the node's places alone.
        self._connections = asyncio.Semaphore(settings.sql_connections)
        self._database, self._login, self._watch = database, login, DatabaseClock(database)

    def check(self, payload: Any) -> None:
        """Whether there is such a function, only its database knows."""
        if not isinstance(payload, dict):
            raise InvalidInput("payload", "must be an object")
        given = cast("dict[str, Any]", payload)
        for name in given.keys() - set(FIELDS):
            raise InvalidInput(f"payload.{name}", f"is not known here; known: {', '.join(FIELDS)}")
        function, arguments = given.get("function"), given.get("arguments", {})
        if not isinstance(function, str) or not is_name(function):
            raise InvalidInput(
                "payload.function", "must be a name with its schema, as in public.nightly_cleanup"
            )
        if not isinstance(arguments, dict):
            raise InvalidInput("payload.arguments", "must be an object")
        check_references(arguments, "payload.arguments")

    async def run(self, context: RunContext) -> Outcome | Recorded:
        if self._database is None or self._login is None or self._watch is None:
            raise RuntimeError("this node has no login for SQL functions")
        async with self._connections:
            return await SqlFunctionCall(self._database, self._login, self._watch, context).run()


def is_name(text: str) -> bool:
    return len(text) <= LONGEST_NAME and NAME.fullmatch(text) is not None


class SqlFunctionCall:
    """One call: the transaction, what came of it, and the doubt in between."""

    def __init__(
        self, database: Database, login: SqlLogin, watch: DatabaseClock, context: RunContext
    ) -> None:
        self._database = database
        self._login = login
        self._watch = watch
        self._context = context
        self._began = time.monotonic()
        self._recorded: Recorded | None = None

    async def run(self) -> Outcome | Recorded:
        try:
            await self._in_transaction()
        except (StoreUnavailable, asyncpg.PostgresError) as error:
            if not await self._is_committed():
                return failure_of(error)
        except InvalidInput as error:
            return Failed(str(error), error_type="InvalidInput")
        except asyncio.CancelledError:
            # Told to stop while it was being committed: it may have finished after all.
            if not await self._is_committed():
                raise
        return cast("Recorded", self._recorded)

    async def _in_transaction(self) -> None:
        context, payload = self._context, self._context.payload
        arguments = context.secrets.fill(payload.get("arguments", {}))
        timeout = max(context.claimed.definition.policy.timeout // MILLISECOND, 1)
        limits = {"statement_timeout": f"{timeout}ms"}
        async with self._login.transaction(limits, self._hear) as session:
            answer = await sql_functions.call_function(session, payload["function"], arguments)
            outcome = outcome_of(answer, context.used_secrets)
            # Whoever sees the end of the run, which comes with the commit, sees what it said. But
            # the transaction is open, and others may wait for its locks.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_WRITING):
                    await context.write_log()
            now = await self._watch.now()
            duration = timedelta(seconds=time.monotonic() - self._began)
            settled = SettledRun(context.claimed, settle(context.claimed, outcome, now), duration)
            failpoint.reach("before_settle")
            group_ids = await sql_functions.settle_run(session, settled)
            failpoint.reach("settled")
            self._recorded = Recorded(outcome, settled.verdict, now, duration, group_ids)

    def _hear(self, connection: Any, notice: Any) -> None:
        """What the function says while it runs."""
        self._context.log(str(notice.message), LEVELS.get(notice.severity_en, "info"))

    async def _is_committed(self) -> bool:
        """After a commit that was not answered: asked until the database says."""
        if self._recorded is None:
            return False
        recorded = self._recorded
        settled = SettledRun(self._context.claimed, recorded.verdict, recorded.duration)
        while True:
            try:
                return await sql_functions.is_end_written(self._database, settled)
            except StoreUnavailable as error:
                log.loop_failed("sql_function", error)
                await asyncio.sleep(ASK_AGAIN)


def outcome_of(answer: bytes | None, secrets: Secrets | None) -> Outcome:
    """Raises InvalidInput for what cannot be kept."""
    if answer is None:
        return DONE
    try:
        result: Any = orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        raise InvalidInput("result", f"cannot be kept: {error}") from None
    result = check_result(result, secrets)
    if not isinstance(result, dict):
        return Done(result=result)
    told = cast("dict[str, Any]", result)
    if told.get("success") is not False:
        return Done(result=told)
    message = told.get("message")
    text = message if isinstance(message, str) and message else "the function says success: false"
    # What it did is committed: once more would be twice.
    return Failed(make_storable(text), error_type="success: false", is_final=True, result=told)


def failure_of(error: StoreUnavailable | asyncpg.PostgresError) -> Failed:
    """What the function raised, or what became of its session."""
    raised = error.__cause__ if isinstance(error, StoreUnavailable) else error
    code = getattr(raised, "sqlstate", None)
    if not isinstance(raised, asyncpg.PostgresError) or is_about_the_connection(raised):
        return Failed(str(error), error_type=type(error).__name__)
    is_late = isinstance(raised, asyncpg.QueryCanceledError) and "timeout" in str(raised)
    told = {name: getattr(raised, name, None) for name in ("detail", "hint", "context")}
    more = [f"{name.upper()}: {text}" for name, text in told.items() if text]
    return Failed(
        str(getattr(raised, "message", None) or raised),
        error_class=ErrorClass.TIMEOUT if is_late else ErrorClass.HANDLER_ERROR,
        error_type=code,
        stack_trace="\n".join([f"SQLSTATE: {code}", *more]),
    )


def is_about_the_connection(error: asyncpg.PostgresError) -> bool:
    """Whether the driver says this, and not the server."""
    return isinstance(error, asyncpg.PostgresConnectionError)
