"""The way to the database: which of its hosts to ask, and whether a pooler stands in between."""

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

# asyncpg is only half typed: what is asked of it goes through a name that says so.
driver: Any = asyncpg

# It has no TCP keepalive options: a cut network is noticed by such limits alone.
CONNECT_TIMEOUT = 5.0
DEFAULT_PORT = 5432
Host = tuple[str, int]


class Route:
    """Leads to one database; the host that answered last is asked first.

    `is_pooled` is None until the first connection has shown it, unless it was said before.
    """

    def __init__(self, url: str, pooler: str = "auto") -> None:
        self.url = url
        self.is_pooled: bool | None = {"on": True, "off": False}.get(pooler)
        self._hosts: list[Host] | None = None

    async def connect(
        self, settings: Mapping[str, str], *, command_timeout: float | None = None
    ) -> Any:
        """A connection with these settings, or, behind a pooler, with none of its own."""
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
        # What is prepared on one server is not known to the next one.
        return await set_json_codecs(await self._dial(**limit, statement_cache_size=0))

    async def _connect_directly(self, settings: Mapping[str, str], limit: dict[str, Any]) -> Any:
        """None if there is a pooler, that takes no settings or says so in another way."""
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
        """A pooler hands out a process id of its own making, since its servers change."""
        if self.is_pooled is None:
            # Without a name: one that stays behind on a pooler's server stands in others' way.
            asking = await connection.prepare(SQL["backend_pid"].text("database"), name="")
            self.is_pooled = await asking.fetchval() != connection.get_server_pid()
        return bool(self.is_pooled)

    async def _dial(self, **options: Any) -> Any:
        self._hosts = parse_hosts(self.url) if self._hosts is None else self._hosts
        if len(self._hosts) < 2:
            return await driver.connect(self.url, timeout=CONNECT_TIMEOUT, **options)
        # Each host has its share of the time: one that is gone says nothing at all, and would
        # else keep the others from being asked.
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
    """The hosts that a URL names, each with its port; none where the driver finds its only one."""
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
        # Which one is not said: it may be part of a password.
        raise ValueError("the port of a host is not a number")
    return name.strip("[]"), int(port)


def describe_address(url: str) -> str:
    """` at HOST:PORT`, or nothing where a stray character might make a password look like one."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    if not place or "@" in parts.path + parts.query + parts.fragment:
        return ""
    return f" at {place}" if ":" in place.rpartition("]")[2] else f" at {place}:{DEFAULT_PORT}"


async def set_json_codecs(connection: Any) -> Any:
    """JSON goes in and out as Python values."""
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=encode_json,
        decoder=decode_json,
    )
    return connection


@dataclass(frozen=True, slots=True)
class JsonElement:
    """A JSON value that is one element of an array parameter.

    Of a bare list the driver would make a further dimension of the array, and its items would
    be dealt out to the rows of other jobs.
    """

    value: Any


def encode_json(value: Any) -> bytes:
    """As jsonb travels: a version, then the text."""
    return b"\x01" + orjson.dumps(value.value if isinstance(value, JsonElement) else value)


def decode_json(data: bytes) -> Any:
    return orjson.loads(data[1:])
