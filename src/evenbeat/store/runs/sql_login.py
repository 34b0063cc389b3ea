"""The login for SQL functions: a role without rights on the engine's tables.

Every run has its own connection. Whatever a function leaves in its session (settings, temporary
tables, locks, connections to other servers, globals of its language) ends with the connection;
DISCARD ALL would remove only some of it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import asyncpg

from evenbeat.core.errors import StoreUnavailable
from evenbeat.observe import log
from evenbeat.store.database.connection_errors import translate_driver_errors
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.database.route import Route
from evenbeat.store.database.statements import load_statements
from evenbeat.store.runs import sql_functions

SQL = load_statements("runs/sql_login")
# A session closes at once, unless its server is gone.
CLOSE_TIMEOUT = 5.0
# A commit also runs what the function has deferred, cursors and triggers. Meanwhile it holds the
# row of its job, so the job cannot be cancelled. The engine waits 4 seconds for a row; PostgreSQL
# has no limit for a commit.
COMMIT_TIMEOUT = 2.0
# The settings of every session. Given at the connect, they outrank settings of the role.
SESSION = {
    "application_name": "evenbeat sql_function",
    "search_path": "pg_catalog, pg_temp",
    "lock_timeout": "30s",
    # A node that freezes between two statements would hold locks.
    "idle_in_transaction_session_timeout": "30s",
    # How soon the server notices that the node is gone.
    "client_connection_check_interval": "2s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "synchronous_commit": "on",
    "client_min_messages": "notice",
    "timezone": "UTC",
    "jit": "off",
}


@dataclass(frozen=True, slots=True)
class LoginRoute:
    """How SQL functions connect to the database, and with which role."""

    route: Route
    role: str
    # Whether the role has fewer rights than the engine.
    is_restricted: bool


class SqlLogin:
    """Connects with the login of this database, with a given one, or, if there is neither, as the
    engine itself."""

    def __init__(self, database: Database, given_url: str | None = None) -> None:
        self._database = database
        self._given_url = given_url
        self._admitted: LoginRoute | None = None
        # Why the login of this database cannot be used.
        self._refusal: str | None = None

    async def prepare(self) -> LoginRoute:
        """Find the login, and grant it the functions it needs; done once."""
        if self._admitted is not None:
            return self._admitted
        await sql_functions.install_settle_function(self._database)
        if self._given_url is not None:
            admitted = await self._admit(Route(self._given_url, "off"))
        else:
            admitted = await self._own_login() or await self._engine()
        logger = log.get_logger().bind(role=admitted.role)
        if admitted.is_restricted:
            logger.info(log.SQL_SERVED)
        else:
            logger.warning(log.SQL_UNRESTRICTED, reason=self._refusal)
        self._admitted = admitted
        return admitted

    @contextlib.asynccontextmanager
    async def transaction(
        self, settings: Mapping[str, str], on_notice: Callable[[Any, Any], None]
    ) -> AsyncGenerator[Session]:
        """A transaction in its own session, which closes with it. It is committed at the end of
        the block; an exception in the block rolls it back."""
        connection = await self._connect(settings)
        try:
            connection.add_log_listener(on_notice)
            with translate_driver_errors():
                transaction = connection.transaction()
                await transaction.start()
            yield Session(connection, self._database.clock)
            with translate_driver_errors():
                async with asyncio.timeout(COMMIT_TIMEOUT):
                    await transaction.commit()
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) or isinstance(
                error.__cause__, TimeoutError
            ):
                await self._end_session(connection)
            raise
        finally:
            await close_connection(connection)

    async def _connect(self, settings: Mapping[str, str]) -> Any:
        admitted, limits = await self.prepare(), SESSION | dict(settings)
        if not self._is_ours(admitted):
            return await admitted.route.connect(limits)
        if not await self._database.fetch_value(SQL["has_role_settings"], role=admitted.role):
            try:
                return await admitted.route.connect(limits)
            except StoreUnavailable as error:
                if not has_wrong_password(error):
                    raise
        # A function has changed the settings or the password of its role: make the login again.
        self._admitted = await self._make_login()
        return await self._admitted.route.connect(limits)

    def _is_ours(self, admitted: LoginRoute) -> bool:
        """Whether it is the login that Evenbeat made for this database, and may make again."""
        return self._given_url is None and admitted.is_restricted

    async def _end_session(self, connection: Any) -> None:
        """A function can ignore its cancellation, but not the end of its session."""
        pid, role = connection.get_server_pid(), (await self.prepare()).role
        with contextlib.suppress(StoreUnavailable, asyncpg.InsufficientPrivilegeError):
            await self._database.fetch(SQL["end_session"], pid=pid, role=role)

    async def _own_login(self) -> LoginRoute | None:
        """None where the engine may not make roles, or pg_hba.conf keeps the login out. A wrong
        password never leads to None: a function could set one to gain the engine's rights."""
        try:
            known = await self._database.fetch_row(SQL["known_login"])
            known = known or await self._database.fetch_row(SQL["make_login"])
        except asyncpg.InsufficientPrivilegeError as error:
            self._refusal = str(error)
            return None
        try:
            return await self._admit(self._route_as(*(known or ("", ""))))
        except StoreUnavailable as error:
            if has_wrong_password(error):
                return await self._make_login()
            if not is_refused_by_hba(error):
                raise
            self._refusal = str(error.__cause__)
            return None

    async def _make_login(self) -> LoginRoute:
        made = await self._database.fetch_row(SQL["make_login"])
        return await self._admit(self._route_as(*(made or ("", ""))))

    async def _engine(self) -> LoginRoute:
        return await self._admit(Route(self._database.url, "off"))

    async def _admit(self, route: Route) -> LoginRoute:
        connection = await route.connect(SESSION)
        try:
            row = await Session(connection, self._database.clock).fetch_row(SQL["session_role"])
        finally:
            await close_connection(connection)
        role, is_restricted = row or ("", False)
        await self._database.fetch(SQL["admit"], role=role)
        return LoginRoute(route, role, is_restricted)

    def _route_as(self, role: str, password: str) -> Route:
        return Route(url_for_role(self._database.url, role, password), "off")


def has_wrong_password(error: StoreUnavailable) -> bool:
    """Or an unknown role, for which PostgreSQL raises the same error."""
    return isinstance(error.__cause__, asyncpg.InvalidPasswordError)


def is_refused_by_hba(error: StoreUnavailable) -> bool:
    """Whether pg_hba.conf does not admit this role from here."""
    return isinstance(error.__cause__, asyncpg.InvalidAuthorizationSpecificationError)


def url_for_role(url: str, role: str, password: str) -> str:
    """The same database for another role."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    user = f"{quote(role, safe='')}:{quote(password, safe='')}"
    query = [each for each in parse_qsl(parts.query) if each[0] not in ("user", "password")]
    return parts._replace(netloc=f"{user}@{hosts}", query=urlencode(query)).geturl()


async def close_connection(connection: Any) -> None:
    """Close it; if that takes too long, drop the connection and leave the rest to the server."""
    try:
        await connection.close(timeout=CLOSE_TIMEOUT)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
    except asyncio.CancelledError:
        connection.terminate()
        raise
