"""The login by which SQL functions run: one that may do nothing to the engine.

Every run has a connection of its own. What a function leaves in its session (settings, temporary
tables, locks, connections to elsewhere, the globals of its language) ends with it, whatever it is;
DISCARD ALL forgets only some of that.
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
# A session that was told to end does so at once, unless its server is gone.
CLOSE_TIMEOUT = 5.0
# Whatever a function has left to be done at the commit, cursors and triggers, is done while the row
# of its job is held: nobody could cancel it meanwhile. The engine waits 4 seconds for a row, and
# PostgreSQL has no limit for this.
COMMIT_TIMEOUT = 2.0
# What every session begins with: said here, it outranks what a function may have set for its role.
SESSION = {
    "application_name": "evenbeat sql_function",
    "search_path": "pg_catalog, pg_temp",
    "lock_timeout": "30s",
    # Between its statements a run waits for nobody; a node that is frozen there holds locks.
    "idle_in_transaction_session_timeout": "30s",
    # How soon a server sees that the node at the other end is gone.
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
    """A way to the database for SQL functions, and whom it leads in as."""

    route: Route
    role: str
    # Whether it is any less than the engine itself.
    is_restricted: bool


class SqlLogin:
    """Connects as the login of this database, as a given one, or, where there is no other way,
    as the engine itself."""

    def __init__(self, database: Database, given_url: str | None = None) -> None:
        self._database = database
        self._given_url = given_url
        self._admitted: LoginRoute | None = None
        # Why there is no login of our own.
        self._refusal: str | None = None

    async def prepare(self) -> LoginRoute:
        """Find the way, and let whom it leads in as call what it needs: once."""
        if self._admitted is not None:
            return self._admitted
        await sql_functions.install_settle_function(self._database)
        if self._given_url is not None:
            admitted = await self._admit(Route(self._given_url, "off"))
        else:
            admitted = await self._own_login() or await self._engine()
        told = log.get_logger().bind(role=admitted.role)
        if admitted.is_restricted:
            told.info(log.SQL_SERVED)
        else:
            told.warning(log.SQL_UNRESTRICTED, reason=self._refusal)
        self._admitted = admitted
        return admitted

    @contextlib.asynccontextmanager
    async def transaction(
        self, settings: Mapping[str, str], on_notice: Callable[[Any, Any], None]
    ) -> AsyncGenerator[Session]:
        """A transaction in a session of its own, which ends with it. It is committed at the end
        of the block; whatever is raised there undoes it, since the session is closed."""
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
        # A function has changed the settings or the password of the role that it ran as.
        self._admitted = await self._made_login()
        return await self._admitted.route.connect(limits)

    def _is_ours(self, admitted: LoginRoute) -> bool:
        """Whether it is the login that is made for this database, which we may put right."""
        return self._given_url is None and admitted.is_restricted

    async def _end_session(self, connection: Any) -> None:
        """A function can ignore that it is cancelled, but not that its session is ended."""
        pid, role = connection.get_server_pid(), (await self.prepare()).role
        with contextlib.suppress(StoreUnavailable, asyncpg.InsufficientPrivilegeError):
            await self._database.fetch(SQL["end_session"], pid=pid, role=role)

    async def _own_login(self) -> LoginRoute | None:
        """None where we may not make roles, or where the server's rules keep ours out. Never for
        the sake of a wrong password: functions can change that, and would gain by it."""
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
                return await self._made_login()
            if not is_refused_by_hba(error):
                raise
            self._refusal = str(error.__cause__)
            return None

    async def _made_login(self) -> LoginRoute:
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
    """Or a role that is not there, of which a server says the same."""
    return isinstance(error.__cause__, asyncpg.InvalidPasswordError)


def is_refused_by_hba(error: StoreUnavailable) -> bool:
    """Whether the server lets nobody of this name in from here, by its pg_hba.conf."""
    return isinstance(error.__cause__, asyncpg.InvalidAuthorizationSpecificationError)


def url_for_role(url: str, role: str, password: str) -> str:
    """The same database for another role."""
    parts = urlsplit(url)
    places = parts.netloc.rpartition("@")[2]
    user = f"{quote(role, safe='')}:{quote(password, safe='')}"
    query = [each for each in parse_qsl(parts.query) if each[0] not in ("user", "password")]
    return parts._replace(netloc=f"{user}@{places}", query=urlencode(query)).geturl()


async def close_connection(connection: Any) -> None:
    """Whatever it is doing is cancelled first; if that takes long, it is left to the server."""
    try:
        await connection.close(timeout=CLOSE_TIMEOUT)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()
    except asyncio.CancelledError:
        connection.terminate()
        raise
