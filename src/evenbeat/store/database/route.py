"""Connects to the database: finds the host that answers, and whether there is a pooler."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
import orjson

from evenbeat.core.errors import StoreUnavailable
from evenbeat.store.database.connection_errors import UNAVAILABLE_ERRORS, driver_message
from evenbeat.store.database.statements import load_statements

SQL = load_statements("database/session")

# asyncpg is only partly typed: untyped calls go through this name.
driver: Any = asyncpg

# asyncpg has no options for TCP keepalive: only such timeouts notice a cut network.
CONNECT_TIMEOUT = 5.0
DEFAULT_PORT = 5432
Host = tuple[str, int]


class Route:
    """Connects to one database; the host that answered last is tried first.

    `is_pooled` says whether there is a pooler. With `pooler="auto"` it is None until the first
    connection has shown it.
    """

    def __init__(self, url: str, pooler: str = "auto") -> None:
        self.url = url
        self.is_pooled: bool | None = {"on": True, "off": False}.get(pooler)
        self._hosts: list[Host] | None = None

    async def connect(
        self, settings: Mapping[str, str], *, command_timeout: float | None = None
    ) -> Any:
        """A connection with these settings; behind a pooler, without them."""
        try:
            return await self._connect(settings, command_timeout)
        except (*UNAVAILABLE_ERRORS, asyncpg.PostgresError, ValueError) as error:
            raise StoreUnavailable(
                f"cannot connect to the database{describe_address(self.url)}: "
                f"{driver_message(error)}; check EVENBEAT_DATABASE_URL"
            ) from error

    async def _connect(self, settings: Mapping[str, str], command_timeout: float | None) -> Any:
        limit = {"command_timeout": command_timeout}
        if not self.is_pooled:
            connection = await self._connect_directly(settings, limit)
            if connection is not None:
                return await set_json_codecs(connection)
            self.is_pooled = True
        # A pooler changes the server, which does not know the statements prepared on another.
        return await set_json_codecs(await self._dial(**limit, statement_cache_size=0))

    async def _connect_directly(self, settings: Mapping[str, str], limit: dict[str, Any]) -> Any:
        """None if there is a pooler: it refuses the settings, or shows by its process id."""
        try:
            connection = await self._dial(**limit, server_settings=dict(settings))
        except asyncpg.ProtocolViolationError as error:
            if self.is_pooled is None and "unsupported startup parameter" in str(error):
                return None
            raise
        if await self._leads_to_a_pooler(connection):
            connection.terminate()
            return None
        return connection

    async def _leads_to_a_pooler(self, connection: Any) -> bool:
        """A pooler reports a process id that it made up, since its servers change."""
        if self.is_pooled is None:
            # Without a name: a named statement stays on the pooler's server, where it would
            # conflict with those of other clients.
            asking = await connection.prepare(SQL["backend_pid"].text("database"), name="")
            self.is_pooled = await asking.fetchval() != connection.get_server_pid()
        return bool(self.is_pooled)

    async def _dial(self, **options: Any) -> Any:
        self._hosts = parse_hosts(self.url) if self._hosts is None else self._hosts
        if len(self._hosts) < 2:
            return await driver.connect(self.url, timeout=CONNECT_TIMEOUT, **options)
        # Each host gets a share of the time: a dead one does not answer at all, and would use up
        # the time of the others.
        share = CONNECT_TIMEOUT / len(self._hosts)
        if "target_session_attrs" not in parse_qs(urlsplit(self.url).query):
            options["target_session_attrs"] = "read-write"
        first_error: Exception | None = None
        for place in list(self._hosts):
            host, port = place
            try:
                connection = await driver.connect(
                    self.url, host=host, port=port, timeout=share, **options
                )
            except UNAVAILABLE_ERRORS as error:
                first_error = first_error or error
                continue
            self._hosts.remove(place)
            self._hosts.insert(0, place)
            return connection
        raise first_error or OSError("no host is named")


def parse_hosts(url: str) -> list[Host]:
    """The hosts that a URL names, each with its port; empty if it names fewer than two."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    places = parts.netloc.rpartition("@")[2] or query.get("host", [""])[0]
    names = places.split(",")
    if len(names) < 2:
        return []
    ports = query.get("port", [str(DEFAULT_PORT)])[0].split(",")
    if len(ports) != len(names):
        ports = ports[:1] * len(names)
    return [parse_host(unquote(name), port) for name, port in zip(names, ports, strict=True)]


def parse_host(place: str, usual_port: str) -> Host:
    """From `name`, `name:port`, `[::1]:port` or the directory of a socket."""
    after_brackets = place.rpartition("]")[2]
    has_port = ":" in after_brackets
    name, port = place.rsplit(":", 1) if has_port else (place, usual_port)
    if not port.isdecimal():
        # The text is not shown: it may be part of a password.
        raise ValueError("the port of a host is not a number")
    return name.strip("[]"), int(port)


def describe_address(url: str) -> str:
    """` at HOST:PORT`; empty if a stray `@` could make part of a password look like a host."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    if not place or "@" in parts.path + parts.query + parts.fragment:
        return ""
    return f" at {place}" if ":" in place.rpartition("]")[2] else f" at {place}:{DEFAULT_PORT}"


async def set_json_codecs(connection: Any) -> Any:
    """Let the connection encode Python values as JSON and decode them."""
    try:
        await connection.set_type_codec(
            "jsonb",
            schema="pg_catalog",
            format="binary",
            encoder=encode_json,
            decoder=decode_json,
        )
    except BaseException:
        # The caller never gets this connection, so that nothing else would close it.
        connection.terminate()
        raise
    return connection


@dataclass(frozen=True, slots=True)
class JsonElement:
    """A JSON value that is one element of an array parameter.

    The driver would take a bare list for another dimension of the array, and its items would go
    to the rows of other jobs.
    """

    value: Any


def encode_json(value: Any) -> bytes:
    """The binary format of jsonb: a version, then the text."""
    return b"\x01" + orjson.dumps(value.value if isinstance(value, JsonElement) else value)


def decode_json(data: bytes) -> Any:
    return orjson.loads(data[1:])
