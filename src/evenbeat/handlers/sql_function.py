"""sql_function: calls a function of the database, in one transaction with the end of its run.

What the function does, the record of the run and the next beat are committed together, so that
each beat has its effect exactly once: if the node dies or loses its lease, all is rolled back.
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
from evenbeat.handlers.payload_fields import fields_of, raise_errors, unknown_fields
from evenbeat.observe import failpoint, log
from evenbeat.store.database.pool import Database, DatabaseClock
from evenbeat.store.jobs import sql_function_checks
from evenbeat.store.runs import sql_functions
from evenbeat.store.runs.sql_login import SqlLogin

FIELDS = ("function", "arguments")
PART = r'(?:[^\W\d][\w$]*|"(?:[^"]|"")+")'
NAME = re.compile(rf"{PART}\.{PART}")
LONGEST_NAME = 200
LEVELS: dict[str, Level] = {"DEBUG": "debug", "WARNING": "warning"}
MILLISECOND = timedelta(milliseconds=1)
# Seconds until the database is asked again whether a commit took effect.
ASK_AGAIN = 0.5
# Seconds that a finished function waits until its log lines are written.
LONGEST_WRITING = 1.0


class SqlFunction:
    """Known everywhere; served by nodes that have a login for it (`serve`)."""

    kind = sql_function_checks.KIND

    def __init__(self) -> None:
        self.most_at_once: int | None = None
        self._database: Database | None = None
        self._login: SqlLogin | None = None
        self._watch: DatabaseClock | None = None

    async def serve(self, database: Database, settings: Settings) -> None:
        """Prepare to run functions of this database. Raises NotPermitted if it must not."""
        given = settings.sql_url
        if database.route.is_pooled and given is None:
            # A pooler shares sessions: another client would get what a function leaves in one.
            raise NotPermitted("connections go through a pooler: set sql_url to bypass it")
        login = SqlLogin(database, None if given is None else given.get_secret_value())
        try:
            await login.prepare()
        except asyncpg.InsufficientPrivilegeError as error:
            raise NotPermitted(f"the engine's login lacks a right: {error}") from error
        except StoreUnavailable as error:
            # The first run tries again: a node goes on while its database is away.
            log.loop_failed("sql_function", error)
        self.most_at_once = settings.sql_connections
        # Needed for jobs of groups: they are claimed without regard to `most_at_once`.
        self._connections = asyncio.Semaphore(settings.sql_connections)
        self._database, self._login, self._watch = database, login, DatabaseClock(database)

    def check(self, payload: Any) -> None:
        """Check the form only; whether the function exists is known to the database."""
        given = fields_of(payload)
        raise_errors(unknown_fields(given, FIELDS))
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
    """One call: its transaction, its outcome, and the check after an unanswered commit."""

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
            # Stopped during the commit, which may have taken effect.
            if not await self._is_committed():
                raise
        return cast("Recorded", self._recorded)

    async def _in_transaction(self) -> None:
        context, payload = self._context, self._context.payload
        arguments = context.secrets.fill(payload.get("arguments", {}))
        timeout = max(context.claimed.definition.policy.timeout // MILLISECOND, 1)
        limits = {"statement_timeout": f"{timeout}ms"}
        async with self._login.transaction(limits, self._log_notice) as session:
            answer = await sql_functions.call_function(session, payload["function"], arguments)
            outcome = outcome_of(answer, context.used_secrets)
            # Log lines are written before the commit, so that they are there when the run ends.
            # Not for long: other transactions may wait for the locks of this one.
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

    def _log_notice(self, connection: Any, notice: Any) -> None:
        """Log what the function says by RAISE NOTICE."""
        self._context.log(str(notice.message), LEVELS.get(notice.severity_en, "info"))

    async def _is_committed(self) -> bool:
        """Whether an unanswered commit took effect; asks until the database answers."""
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
    """The outcome of a function's result. Raises InvalidInput if it cannot be stored."""
    if answer is None:
        return DONE
    try:
        result: Any = orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        raise InvalidInput("result", f"cannot be stored: {error}") from None
    result = check_result(result, secrets)
    if not isinstance(result, dict):
        return Done(result=result)
    fields = cast("dict[str, Any]", result)
    if fields.get("success") is not False:
        return Done(result=fields)
    message = fields.get("message")
    text = message if isinstance(message, str) and message else "the function says success: false"
    # Final: what the function did is committed, and a retry would do it twice.
    return Failed(make_storable(text), error_type="success: false", is_final=True, result=fields)


def failure_of(error: StoreUnavailable | asyncpg.PostgresError) -> Failed:
    """The failure for an error of the function, or of its session."""
    raised = error.__cause__ if isinstance(error, StoreUnavailable) else error
    code = getattr(raised, "sqlstate", None)
    if not isinstance(raised, asyncpg.PostgresError) or is_connection_error(raised):
        return Failed(str(error), error_type=type(error).__name__)
    is_late = isinstance(raised, asyncpg.QueryCanceledError) and "timeout" in str(raised)
    details = {name: getattr(raised, name, None) for name in ("detail", "hint", "context")}
    more = [f"{name.upper()}: {text}" for name, text in details.items() if text]
    return Failed(
        str(getattr(raised, "message", None) or raised),
        error_class=ErrorClass.TIMEOUT if is_late else ErrorClass.HANDLER_ERROR,
        error_type=code,
        stack_trace="\n".join([f"SQLSTATE: {code}", *more]),
    )


def is_connection_error(error: asyncpg.PostgresError) -> bool:
    """Whether the driver raised it, rather than the server."""
    return isinstance(error, asyncpg.PostgresConnectionError)
