"""The schema of a database: numbered migrations, applied once each, and then repeatable files.

A numbered migration is a folder `schema/NNNN_name`. Its files go forward, in the order of their
names and in one transaction; `down.sql` goes back. Applied migrations are recorded with their
checksums, so that a migration that was changed afterwards is refused.

A repeatable file, `schema/repeatable/NN_name.sql`, makes views, functions and triggers by
`create or replace`. It is applied again when its version is raised. See decision 29.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import Any

import asyncpg

from evenbeat.core.errors import MigrationFailed
from evenbeat.core.time.schedules.base.zones import known_zones
from evenbeat.observe import log
from evenbeat.store.database.connection_errors import translate_driver_errors
from evenbeat.store.database.pool import Session, connect
from evenbeat.store.database.statements import load_statements

SQL = load_statements("database/migrations")
OLDEST_POSTGRES = 15
FOLDER = re.compile(r"(?P<number>\d{4})_(?P<name>\w+)")
REPEATABLE = re.compile(r"\d\d_(?P<name>\w+)\.sql")
VERSION = re.compile(r"-- version: (\d+)\n")
MADE = re.compile(r"^create (?:or replace )?(?:function|view) ([\w.]+)", re.MULTILINE)
WAY_BACK = "down.sql"


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema, with its way back."""

    number: int
    name: str
    up: str
    down: str

    @property
    def checksum(self) -> str:
        return checksum_of(self.up)

    def __str__(self) -> str:
        return f"{self.number:04} {self.name}"


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A file of views, functions and triggers, which may be applied again and again."""

    name: str
    version: int
    text: str

    @property
    def checksum(self) -> str:
        return checksum_of(self.text)

    @property
    def objects(self) -> frozenset[str]:
        """The names of the views and functions that the file makes, each with its schema."""
        return frozenset(MADE.findall(self.text))

    def __str__(self) -> str:
        return f"repeatable {self.name}, version {self.version}"


Step = Migration | Repeatable


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    """A numbered migration that a database records."""

    number: int
    name: str
    checksum: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class AppliedRepeatable:
    """A repeatable file that a database records."""

    name: str
    version: int
    checksum: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """What a database records, against the steps that this version of Evenbeat knows."""

    known: tuple[Step, ...]
    applied: tuple[AppliedMigration, ...]
    repeatables: tuple[AppliedRepeatable, ...] = ()

    @property
    def migrations(self) -> tuple[Migration, ...]:
        return tuple(step for step in self.known if isinstance(step, Migration))

    @property
    def pending_migrations(self) -> tuple[Migration, ...]:
        done = {step.number for step in self.applied}
        return tuple(step for step in self.migrations if step.number not in done)

    @property
    def pending_repeatables(self) -> tuple[Repeatable, ...]:
        files = (step for step in self.known if isinstance(step, Repeatable))
        return tuple(file for file in files if self.is_outdated(file))

    @property
    def pending(self) -> tuple[Step, ...]:
        return (*self.pending_migrations, *self.pending_repeatables)

    @property
    def is_current(self) -> bool:
        return not self.pending and not self.is_newer

    @property
    def is_newer(self) -> bool:
        known = {step.number for step in self.migrations}
        return any(step.number not in known for step in self.applied)

    def is_outdated(self, file: Repeatable) -> bool:
        """Whether the database has an older text of this file, or none.

        A newer release may have applied a higher version: that one stays. The same version with
        another text is a file under development.
        """
        for recorded in self.repeatables:
            if recorded.name == file.name:
                if recorded.version == file.version:
                    return recorded.checksum != file.checksum
                return recorded.version < file.version
        return True

    def newest(self, steps: int) -> list[Migration]:
        """The applied migrations that a rollback would take back first, newest first."""
        done = {step.number for step in self.applied}
        return [step for step in reversed(self.migrations) if step.number in done][:steps]

    def check(self) -> None:
        """Refuse a database that a newer version made, and migrations changed after they ran."""
        if self.is_newer:
            newest, ours = self.applied[-1], max((m.number for m in self.migrations), default=0)
            raise MigrationFailed(
                f"the database is at migration {newest.number:04} ({newest.name}), this version "
                f"knows migrations up to {ours:04}: upgrade Evenbeat, or roll the database back "
                "with the version that migrated it"
            )
        checksums = {step.number: step.checksum for step in self.migrations}
        for step in self.applied:
            if step.checksum != checksums[step.number]:
                raise MigrationFailed(
                    f"migration {step.number:04} ({step.name}) was changed after it was applied: "
                    "restore the file, or write the change as a new migration"
                )


def checksum_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def known_steps() -> tuple[Step, ...]:
    return (*known_migrations(), *known_repeatables())


def known_migrations() -> tuple[Migration, ...]:
    found: list[Migration] = []
    for folder in schema_folder().iterdir():
        if match := FOLDER.fullmatch(folder.name):
            files = {file.name: read(file) for file in folder.iterdir() if file.name[-4:] == ".sql"}
            down = files.pop(WAY_BACK)
            up = "\n".join(text for _, text in sorted(files.items()))
            found.append(Migration(int(match["number"]), match["name"], up, down))
    return tuple(sorted(found, key=lambda step: step.number))


def known_repeatables() -> tuple[Repeatable, ...]:
    files = sorted((schema_folder() / "repeatable").iterdir(), key=lambda file: file.name)
    return tuple(
        repeatable(match["name"], read(file))
        for file in files
        if (match := REPEATABLE.fullmatch(file.name))
    )


def repeatable(name: str, text: str) -> Repeatable:
    version = VERSION.match(text)
    if version is None:
        raise ValueError(f"repeatable file {name} must begin with a line `-- version: 1`")
    return Repeatable(name, int(version[1]), text)


def schema_folder() -> Any:
    return resources.files("evenbeat.store") / "schema"


def read(file: Any) -> str:
    return str(file.read_text(encoding="utf-8"))


async def find_schema_status(url: str, known: Sequence[Step] | None = None) -> SchemaStatus:
    connection = await connect(url)
    try:
        return await read_schema_status(Session(connection, "database"), known)
    finally:
        await connection.close()


async def read_schema_status(session: Session, known: Sequence[Step] | None = None) -> SchemaStatus:
    steps = tuple(known_steps() if known is None else known)
    if not await session.fetch_value(SQL["exists"]):
        return SchemaStatus(steps, ())
    applied = await session.fetch(SQL["applied"])
    repeatables = await session.fetch(SQL["applied_repeatables"])
    return SchemaStatus(
        steps,
        tuple(AppliedMigration(*row) for row in applied),
        tuple(AppliedRepeatable(*row) for row in repeatables),
    )


async def migrate(url: str, known: Sequence[Step] | None = None) -> list[Step]:
    """Apply the pending steps, and return them."""
    connection = await connect(url, is_patient=True)
    try:
        session = Session(connection, "database")
        await refuse_old_server(session)
        done = await apply_pending(connection, session, known)
        await load_zones(session)
    finally:
        await connection.close()
    return done


async def apply_pending(
    connection: Any, session: Session, known: Sequence[Step] | None = None
) -> list[Step]:
    """Apply the pending ones of these steps, or of all; within an open transaction, if any."""
    # Nearly every start finds nothing to do, and then does not wait for the lock.
    if not (await checked_status(session, known)).pending:
        return []
    done: list[Step] = []
    while step := await apply_next(connection, session, known):
        done.append(step)
    done += await apply_repeatables(connection, session, known)
    return done


async def load_zones(session: Session) -> None:
    """Tell the database which time zones we can read: a newer Python knows newer ones."""
    if await session.fetch_value(SQL["has_zones"]):
        await session.execute(SQL["load_zones"], names=sorted(known_zones()))


async def refuse_old_server(session: Session) -> None:
    major = await session.fetch_value(SQL["server_version"]) // 10_000
    if major < OLDEST_POSTGRES:
        raise MigrationFailed(
            f"this is PostgreSQL {major}; Evenbeat needs {OLDEST_POSTGRES} or newer"
        )


async def checked_status(session: Session, known: Sequence[Step] | None) -> SchemaStatus:
    now = await read_schema_status(session, known)
    now.check()
    return now


async def apply_next(
    connection: Any, session: Session, known: Sequence[Step] | None
) -> Migration | None:
    """Apply the next pending migration, in a transaction of its own.

    It is looked up again under the lock: another process may have applied it meanwhile.
    """
    with translate_driver_errors():
        async with connection.transaction():
            await session.execute(SQL["lock"])
            pending = (await checked_status(session, known)).pending_migrations
            if not pending:
                return None
            step = pending[0]
            await create_records(session)
            await run_file(connection, step, step.up)
            await session.execute(
                SQL["record"], number=step.number, name=step.name, checksum=step.checksum
            )
    log.get_logger().info(log.MIGRATED, migration=str(step))
    return step


async def apply_repeatables(
    connection: Any, session: Session, known: Sequence[Step] | None
) -> Sequence[Repeatable]:
    """Apply all outdated files in one transaction.

    Objects that were there before keep the privileges that people gave and took, even if a file
    drops them and creates them again.
    """
    with translate_driver_errors():
        async with connection.transaction():
            await session.execute(SQL["lock"])
            files = (await checked_status(session, known)).pending_repeatables
            if not files:
                return ()
            await create_records(session)
            objects = sorted(frozenset[str]().union(*(file.objects for file in files)))
            before = await session.fetch_value(SQL["privileges"], objects=objects)
            for file in files:
                await run_file(connection, file, file.text)
                await session.execute(
                    SQL["record_repeatable"],
                    name=file.name,
                    version=file.version,
                    checksum=file.checksum,
                )
            for row in await session.fetch(SQL["put_back"], objects=objects, before=before):
                await connection.execute(row["statement"])
    for file in files:
        log.get_logger().info(log.MIGRATED, migration=str(file))
    return files


async def create_records(session: Session) -> None:
    for name in ("create_schema", "create_table", "create_repeatable_table"):
        await session.execute(SQL[name])


async def rollback(url: str, steps: int = 1) -> list[Migration]:
    """Take the newest migrations back, and return them."""
    undone: list[Migration] = []
    connection = await connect(url, is_patient=True)
    try:
        session = Session(connection, "database")
        while len(undone) < steps and (step := await roll_back_newest(connection, session)):
            log.get_logger().info(log.ROLLED_BACK, migration=str(step))
            undone.append(step)
    finally:
        await connection.close()
    return undone


async def roll_back_newest(connection: Any, session: Session) -> Migration | None:
    """Take the newest migration back; with the first one go the objects of repeatable files.

    In any case their records go, so that the release that migrates next applies its own files.
    """
    with translate_driver_errors():
        async with connection.transaction():
            await session.execute(SQL["lock"])
            now = await checked_status(session, None)
            if not now.applied:
                return None
            [step] = now.newest(1)
            if len(now.applied) == 1:
                await run_file(connection, step, read(schema_folder() / "repeatable" / WAY_BACK))
            await run_file(connection, step, step.down)
            await session.execute(SQL["forget"], number=step.number)
            await session.execute(SQL["forget_repeatables"])
    return step


async def run_file(connection: Any, step: Step, text: str) -> None:
    try:
        await connection.execute(text)
    except asyncpg.PostgresError as error:
        sort = "migration " if isinstance(step, Migration) else ""
        raise MigrationFailed(f"{sort}{step} failed, nothing was changed: {error}") from error
