"""Copies all rows of all tables out of a database in one snapshot, and into an empty one.

A backup has no schema: the migrations make it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import IO, Any

import asyncpg

from evenbeat.core.errors import Conflict, InvalidInput, MigrationFailed, NotFound
from evenbeat.store.database import migrations as migrate
from evenbeat.store.database.connection_errors import translate_driver_errors
from evenbeat.store.database.migrations import AppliedMigration, SchemaStatus
from evenbeat.store.database.pool import Session, connect, open_read_snapshot
from evenbeat.store.database.statements import load_statements
from evenbeat.store.ops import nodes

SQL = load_statements("ops/backup")
SCHEMA = "evenbeat"

BackupSink = Callable[[str, bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class BackupTable:
    """A table, the columns in the backup, and how many rows it has there."""

    name: str
    columns: tuple[str, ...]
    rows: int = 0


@dataclass(frozen=True, slots=True)
class BackupContents:
    """What a backup holds besides the rows: migrations, tables, sequences, the server's version."""

    migrations: tuple[AppliedMigration, ...]
    tables: tuple[BackupTable, ...]
    sequences: Mapping[str, int]
    server: str


async def dump_tables(url: str, sink: BackupSink) -> BackupContents:
    """Pass every row to the sink, table by table in COPY's text format, from one snapshot."""
    async with open_read_snapshot(url) as connection:
        session = Session(connection, "database")
        status = await migrate.read_schema_status(session)
        status.check()
        if not status.applied:
            raise NotFound("this database has no schema, so there is nothing to back up")
        written = [
            BackupTable(table.name, table.columns, await copy_out(connection, table, sink))
            for table in await list_tables(session)
        ]
        sequences = await session.fetch(SQL["sequences"])
        return BackupContents(
            status.applied,
            tuple(written),
            {row["name"]: row["value"] for row in sequences},
            ".".join(map(str, connection.get_server_version()[:2])),
        )


async def copy_out(connection: Any, table: BackupTable, sink: BackupSink) -> int:
    async def write(data: bytes) -> None:
        await sink(table.name, data)

    with translate_driver_errors():
        status: str = await connection.copy_from_table(
            table.name, schema_name=SCHEMA, columns=table.columns, output=write
        )
    return rows_in_status(status)


async def list_tables(session: Session) -> list[BackupTable]:
    """In an order in which every table comes after those it refers to."""
    found = {row["name"]: row for row in await session.fetch(SQL["tables"])}
    order = TopologicalSorter({name: row["needs"] for name, row in found.items()})
    return [BackupTable(name, tuple(found[name]["columns"])) for name in order.static_order()]


async def restore_backup(
    url: str, contents: BackupContents, source: Callable[[str], IO[bytes]], *, replaces: bool
) -> None:
    """Make the schema as it was, fill it, and migrate it: all in one transaction.

    `replaces`: what is in the database is deleted. Otherwise the database must be empty.
    """
    check_schema(contents)
    connection = await connect(url, is_patient=True)
    try:
        with translate_driver_errors():
            async with connection.transaction():
                await restore_rows(connection, contents, source, replaces=replaces)
    finally:
        await connection.close()


async def restore_rows(
    connection: Any, contents: BackupContents, source: Callable[[str], IO[bytes]], *, replaces: bool
) -> None:
    session = Session(connection, "database")
    await migrate.refuse_old_server(session)
    await drop_old_schema(connection, session, replaces=replaces)
    numbers = {step.number for step in contents.migrations}
    # The repeatable files come after the rows: their triggers would write what the backup holds.
    as_it_was = [step for step in migrate.known_migrations() if step.number in numbers]
    await migrate.apply_pending(connection, session, as_it_was)
    await session.execute(SQL["truncate_tables"])
    written = {table.name: table for table in contents.tables}
    for table in await list_tables(session):
        await copy_in(connection, written.get(table.name, table), source)
    for name, value in contents.sequences.items():
        await session.fetch(SQL["set_sequence"], name=name, value=value)
    await session.execute(SQL["mark_nodes_dead"])
    await migrate.apply_pending(connection, session)


async def drop_old_schema(connection: Any, session: Session, *, replaces: bool) -> None:
    """Remove the present schema; refused while nodes are alive on it."""
    status = await migrate.read_schema_status(session)
    if status.applied:
        live = await nodes.count_live_nodes(session)
        if live:
            raise Conflict(f"{live} nodes are alive on this database: stop them first")
        if not replaces:
            # An older schema lacks some of the tables that are checked. A refusal rolls this back.
            await migrate.apply_pending(connection, session)
            status = await migrate.read_schema_status(session)
            await refuse_used_database(session)
    for _ in status.applied:
        await migrate.roll_back_newest(connection, session)


async def refuse_used_database(session: Session) -> None:
    if await session.fetch_value(SQL["is_used"]):
        raise Conflict(
            "there are jobs, runs, groups, templates, tokens or audit entries in this database:"
            " restore into an empty one, or pass --replace to delete what is here"
        )


async def copy_in(connection: Any, table: BackupTable, source: Callable[[str], IO[bytes]]) -> None:
    if not table.rows:
        return
    try:
        with source(table.name) as rows:
            status: str = await connection.copy_to_table(
                table.name, schema_name=SCHEMA, columns=table.columns, source=rows
            )
    except asyncpg.DataError as error:
        raise InvalidInput("file", f"is damaged in table {table.name}: {error}") from error
    if rows_in_status(status) != table.rows:
        raise InvalidInput(
            "file", f"has {rows_in_status(status)} rows of table {table.name}, and not {table.rows}"
        )


def check_schema(contents: BackupContents) -> None:
    """Refuse a backup of a newer version, or of one with other migrations."""
    try:
        SchemaStatus(migrate.known_migrations(), contents.migrations).check()
    except MigrationFailed as error:
        raise MigrationFailed(f"this backup is not for this version of Evenbeat: {error}") from None


def rows_in_status(status: str) -> int:
    return int(status.rpartition(" ")[2])
