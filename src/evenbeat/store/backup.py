"""All rows of all our tables, out of one moment of a database, and into an empty one.

The schema does not travel: migrations make it, so that there is one truth about it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import IO, Any

import asyncpg

from evenbeat.core.errors import Conflict, InvalidInput, MigrationFailed, NotFound
from evenbeat.store import migrate, nodes
from evenbeat.store.availability import availability
from evenbeat.store.database import Session, connect, moment
from evenbeat.store.migrate import Applied, Status
from evenbeat.store.statements import load

SQL = load("backup")
SCHEMA = "evenbeat"

Sink = Callable[[str, bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table, the columns that are written, and how many rows were."""

    name: str
    columns: tuple[str, ...]
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Contents:
    """What a backup holds besides the rows: by which schema, and how far its sequences were."""

    migrations: tuple[Applied, ...]
    tables: tuple[Table, ...]
    sequences: Mapping[str, int]
    server: str


async def take(url: str, sink: Sink) -> Contents:
    """Hand every row to the sink, table by table in COPY's text format, as of one moment."""
    async with moment(url) as connection:
        session = Session(connection, "database")
        status = await migrate.read_status(session)
        status.check()
        if not status.applied:
            raise NotFound("there is no schema in this database, and so nothing to back up")
        written = [
            Table(table.name, table.columns, await copy_out(connection, table, sink))
            for table in await tables(session)
        ]
        sequences = await session.fetch(SQL["sequences"])
        return Contents(
            status.applied,
            tuple(written),
            {row["name"]: row["value"] for row in sequences},
            ".".join(map(str, connection.get_server_version()[:2])),
        )


async def copy_out(connection: Any, table: Table, sink: Sink) -> int:
    async def write(data: bytes) -> None:
        await sink(table.name, data)

    with availability():
        status: str = await connection.copy_from_table(
            table.name, schema_name=SCHEMA, columns=table.columns, output=write
        )
    return count_in(status)


async def tables(session: Session) -> list[Table]:
    """In an order in which each finds there what it refers to."""
    found = {row["name"]: row for row in await session.fetch(SQL["tables"])}
    order = TopologicalSorter({name: row["needs"] for name, row in found.items()})
    return [Table(name, tuple(found[name]["columns"])) for name in order.static_order()]


async def put_back(
    url: str, contents: Contents, source: Callable[[str], IO[bytes]], *, replaces: bool
) -> None:
    """Make the schema as it was, fill it, and bring it up to date: all in one transaction.

    What is in the database goes with it, if it `replaces`; else an empty one is asked for.
    """
    check_schema(contents)
    connection = await connect(url, is_patient=True)
    try:
        with availability():
            async with connection.transaction():
                await fill(connection, contents, source, replaces=replaces)
    finally:
        await connection.close()


async def fill(
    connection: Any, contents: Contents, source: Callable[[str], IO[bytes]], *, replaces: bool
) -> None:
    session = Session(connection, "database")
    await migrate.refuse_old_server(session)
    await make_room(connection, session, replaces=replaces)
    numbers = {step.number for step in contents.migrations}
    # The repeatable files come after the rows: their triggers would write what the backup holds.
    as_it_was = [step for step in migrate.known_migrations() if step.number in numbers]
    await migrate.apply_all(connection, session, as_it_was)
    await session.execute(SQL["clear"])
    written = {table.name: table for table in contents.tables}
    for table in await tables(session):
        await copy_in(connection, written.get(table.name, table), source)
    for name, value in contents.sequences.items():
        await session.fetch(SQL["set_sequence"], name=name, value=value)
    await session.execute(SQL["bury"])
    await migrate.apply_all(connection, session)


async def make_room(connection: Any, session: Session, *, replaces: bool) -> None:
    """Take down whatever schema there is, unless somebody lives in it."""
    status = await migrate.read_status(session)
    if status.applied:
        alive = await nodes.count_live(session)
        if alive:
            raise Conflict(f"{alive} nodes are alive on this database: stop them first")
        if not replaces:
            # An older schema has not every table that is asked about; what is refused is undone.
            await migrate.apply_all(connection, session)
            status = await migrate.read_status(session)
            await refuse_used(session)
    for _ in status.applied:
        await migrate.undo_last(connection, session)


async def refuse_used(session: Session) -> None:
    if await session.fetch_value(SQL["is_used"]):
        raise Conflict(
            "there are jobs, runs, groups, templates, tokens or an audit in this database: restore"
            " into an empty one, or say --replace to lose what is here"
        )


async def copy_in(connection: Any, table: Table, source: Callable[[str], IO[bytes]]) -> None:
    if not table.rows:
        return
    try:
        with source(table.name) as rows:
            status: str = await connection.copy_to_table(
                table.name, schema_name=SCHEMA, columns=table.columns, source=rows
            )
    except asyncpg.DataError as error:
        raise InvalidInput("file", f"is damaged in table {table.name}: {error}") from error
    if count_in(status) != table.rows:
        raise InvalidInput(
            "file", f"has {count_in(status)} rows of table {table.name}, and not {table.rows}"
        )


def check_schema(contents: Contents) -> None:
    """Refuse what a newer version wrote, or one whose migrations were others."""
    try:
        Status(migrate.known_migrations(), contents.migrations).check()
    except MigrationFailed as error:
        raise MigrationFailed(f"this backup is not for this version of Evenbeat: {error}") from None


def count_in(status: str) -> int:
    return int(status.rpartition(" ")[2])
