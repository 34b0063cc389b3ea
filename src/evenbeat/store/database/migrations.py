"""The schema's history: numbered files, applied in order, each in one transaction.

`schema/NNNN_name.up.sql` goes forward and `.down.sql` goes back. Applied files are remembered
with their checksums, so a file that was changed afterwards is noticed, not run.
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
FILE_NAME = re.compile(r"(?P<number>\d{4})_(?P<name>\w+)\.up\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema, with its way back."""

    number: int
    name: str
    up: str
    down: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.up.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.number:04} {self.name}"


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    """A step that a database has taken."""

    number: int
    name: str
    checksum: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Where a database stands against the migrations this version knows."""

    known: tuple[Migration, ...]
    applied: tuple[AppliedMigration, ...]

    @property
    def pending(self) -> tuple[Migration, ...]:
        done = {step.number for step in self.applied}
        return tuple(step for step in self.known if step.number not in done)

    @property
    def is_current(self) -> bool:
        return not self.pending and not self.is_newer

    @property
    def is_newer(self) -> bool:
        known = {step.number for step in self.known}
        return any(step.number not in known for step in self.applied)

    def newest(self, steps: int) -> list[Migration]:
        """The applied steps that would go first, newest first."""
        done = {step.number for step in self.applied}
        return [step for step in reversed(self.known) if step.number in done][:steps]

    def check(self) -> None:
        """Refuse a database that a newer version made, and files changed after they were run."""
        if self.is_newer:
            newest, ours = self.applied[-1], self.known[-1].number if self.known else 0
            raise MigrationFailed(
                f"the database is at migration {newest.number:04} ({newest.name}), this version "
                f"knows migrations up to {ours:04}: upgrade Evenbeat, or roll the database back "
                "with the version that migrated it"
            )
        checksums = {step.number: step.checksum for step in self.known}
        for step in self.applied:
            if step.checksum != checksums[step.number]:
                raise MigrationFailed(
                    f"migration {step.number:04} ({step.name}) was changed after it was applied: "
                    "restore the file, or write the change as a new migration"
                )


def known_migrations() -> tuple[Migration, ...]:
    folder = resources.files("evenbeat.store") / "schema"
    found: list[Migration] = []
    for file in folder.iterdir():
        match = FILE_NAME.fullmatch(file.name)
        if match:
            down = folder / file.name.replace(".up.sql", ".down.sql")
            found.append(
                Migration(
                    int(match["number"]),
                    match["name"],
                    file.read_text(encoding="utf-8"),
                    down.read_text(encoding="utf-8"),
                )
            )
    return tuple(sorted(found, key=lambda step: step.number))


async def find_schema_status(url: str, known: Sequence[Migration] | None = None) -> SchemaStatus:
    connection = await connect(url)
    try:
        return await read_schema_status(Session(connection, "database"), known)
    finally:
        await connection.close()


async def read_schema_status(
    session: Session, known: Sequence[Migration] | None = None
) -> SchemaStatus:
    steps = tuple(known_migrations() if known is None else known)
    if not await session.fetch_value(SQL["exists"]):
        return SchemaStatus(steps, ())
    rows = await session.fetch(SQL["applied"])
    return SchemaStatus(steps, tuple(AppliedMigration(*row) for row in rows))


async def migrate(url: str, known: Sequence[Migration] | None = None) -> list[Migration]:
    """Apply whatever is pending, and say what that was."""
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
    connection: Any, session: Session, known: Sequence[Migration] | None = None
) -> list[Migration]:
    """Whatever is pending of these, or of all; part of the transaction that is under way."""
    done: list[Migration] = []
    # Nearly every start finds nothing to do, and need not wait for whoever holds the lock.
    if await find_next_migration(session, known) is None:
        return done
    while step := await apply_next(connection, session, known):
        log.get_logger().info(log.MIGRATED, migration=str(step))
        done.append(step)
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


async def apply_next(
    connection: Any, session: Session, known: Sequence[Migration] | None
) -> Migration | None:
    """The next pending step, looked up again under the lock: another process may have taken it."""
    with translate_driver_errors():
        async with connection.transaction():
            await session.execute(SQL["lock"])
            step = await find_next_migration(session, known)
            if step is None:
                return None
            await session.execute(SQL["create_schema"])
            await session.execute(SQL["create_table"])
            await run_file(connection, step, step.up)
            await session.execute(
                SQL["record"], number=step.number, name=step.name, checksum=step.checksum
            )
    return step


async def find_next_migration(
    session: Session, known: Sequence[Migration] | None
) -> Migration | None:
    now = await read_schema_status(session, known)
    now.check()
    return now.pending[0] if now.pending else None


async def rollback(url: str, steps: int = 1) -> list[Migration]:
    """Take the newest steps back, and say which they were."""
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
    with translate_driver_errors():
        async with connection.transaction():
            await session.execute(SQL["lock"])
            now = await read_schema_status(session)
            now.check()
            if not now.applied:
                return None
            step = next(s for s in now.known if s.number == now.applied[-1].number)
            await run_file(connection, step, step.down)
            await session.execute(SQL["forget"], number=step.number)
    return step


async def run_file(connection: Any, step: Migration, text: str) -> None:
    try:
        await connection.execute(text)
    except asyncpg.PostgresError as error:
        raise MigrationFailed(f"migration {step} failed, nothing was changed: {error}") from error
