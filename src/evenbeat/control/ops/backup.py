"""Backups as files: a ZIP archive with a member per table, and a manifest of what is in it."""

import contextlib
import os
import zipfile
import zlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import orjson

from evenbeat.core.errors import InvalidInput
from evenbeat.store.database.migrations import AppliedMigration
from evenbeat.store.ops import backup
from evenbeat.store.ops.backup import BackupContents, BackupTable

FORMAT = 1
MANIFEST = "manifest.json"
# Compared with the best level: half as large again, and three times as fast.
LEVEL = 3

# Called with a table, and how many bytes of it were copied since the last call.
Progress = Callable[[str, int], None]


def ignore_progress(table: str, size: int) -> None:
    """For a caller that does not show progress."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup on disk, and what it holds."""

    path: Path
    taken_at: datetime
    contents: BackupContents

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.contents.tables)


async def write_backup(url: str, path: Path, on_progress: Progress = ignore_progress) -> Backup:
    """Back up all tables from one snapshot. The file appears when it is complete."""
    refuse_existing(path)
    taken_at = datetime.now(UTC)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with private_file(unfinished) as file:
            contents = await write_archive(url, file, taken_at, on_progress)
        unfinished.rename(path)
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be written: {error.strerror or error}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return Backup(path, taken_at, contents)


def refuse_existing(path: Path) -> None:
    if path.exists():
        raise InvalidInput(str(path), "is there already: choose another name, or remove it")


async def write_archive(
    url: str, file: IO[bytes], taken_at: datetime, on_progress: Progress
) -> BackupContents:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        members = contextlib.ExitStack()
        opened: dict[str, IO[bytes]] = {}

        async def sink(table: str, data: bytes) -> None:
            if table not in opened:
                # A ZIP archive has one open member at a time.
                members.close()
                opened[table] = members.enter_context(
                    archive.open(member_of(table), "w", force_zip64=True)
                )
            opened[table].write(data)
            on_progress(table, len(data))

        with members:
            contents = await backup.dump_tables(url, sink)
        archive.writestr(MANIFEST, orjson.dumps(manifest_of(contents, taken_at)))
    return contents


@contextlib.contextmanager
def private_file(path: Path) -> Generator[IO[bytes]]:
    """A new file that only its owner may read; closing it syncs it to disk."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


async def restore_backup(
    url: str, path: Path, *, replaces: bool = False, on_progress: Progress = ignore_progress
) -> Backup:
    """Copy a backup into a database, all of it or nothing."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = read_manifest(path, archive)

            def source(table: str) -> IO[bytes]:
                on_progress(table, archive.getinfo(member_of(table)).file_size)
                return archive.open(member_of(table))

            await backup.restore_backup(url, found.contents, source, replaces=replaces)
            return found
    except FileNotFoundError:
        raise InvalidInput(str(path), "cannot be read: there is no such file") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:
        # The archive, a compressed member, its end, or a missing member, in this order.
        raise InvalidInput(str(path), f"is not a whole backup: {error}") from None


def member_of(table: str) -> str:
    return f"{table}.copy"


def manifest_of(contents: BackupContents, taken_at: datetime) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "evenbeat": version("evenbeat"),
        "postgres": contents.server,
        "taken_at": taken_at,
        "migrations": [
            {"number": step.number, "name": step.name, "checksum": step.checksum}
            for step in contents.migrations
        ],
        "tables": {
            table.name: {"columns": table.columns, "rows": table.rows} for table in contents.tables
        },
        "sequences": dict(contents.sequences),
    }


def read_manifest(path: Path, archive: zipfile.ZipFile) -> Backup:
    if MANIFEST not in archive.namelist():
        raise InvalidInput(str(path), "is not a whole backup: it has no manifest")
    try:
        found = orjson.loads(archive.read(MANIFEST))
        if found["format"] != FORMAT:
            message = f"is of format {found['format']}, which is not known here"
            raise InvalidInput(str(path), message)
        return backup_of(path, found)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        # Not JSON, or not the JSON that `manifest_of` writes.
        raise InvalidInput(str(path), f"is not a whole backup: its manifest: {error}") from None


def backup_of(path: Path, found: Any) -> Backup:
    taken_at = datetime.fromisoformat(found["taken_at"])
    contents = BackupContents(
        tuple(
            AppliedMigration(step["number"], step["name"], step["checksum"], taken_at)
            for step in found["migrations"]
        ),
        tuple(
            BackupTable(name, tuple(table["columns"]), table["rows"])
            for name, table in found["tables"].items()
        ),
        found["sequences"],
        found["postgres"],
    )
    return Backup(path, taken_at, contents)
