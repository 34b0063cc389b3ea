"""Making a data directory: complete and in its place, or not there at all."""

import os
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres.account import OsAccount
from evenbeat.postgres.binaries import Binaries
from evenbeat.postgres.commands import CommandError
from evenbeat.postgres.home import INITDB_PREFIX, Home, write_private
from evenbeat.postgres.log import reason_in

SUPERUSER = "evenbeat"


def has_cluster(data: Path) -> bool:
    """Whether a data directory is there; what is something else is refused."""
    if (data / "PG_VERSION").exists():
        return True
    if os.path.lexists(data) and not (data.is_dir() and not any(data.iterdir())):
        raise PostgresFailed(
            f"{data} is not a data directory of PostgreSQL (it has no PG_VERSION) and not empty: "
            "move it away, or set EVENBEAT_DATA_DIR to another directory"
        )
    return False


def make_cluster(home: Home, account: OsAccount, binaries: Binaries, *, durable: bool) -> None:
    """Run initdb beside the final place and move the result there in one step."""
    workshop = Path(tempfile.mkdtemp(prefix=INITDB_PREFIX, dir=home.path))
    try:
        password = secrets.token_urlsafe(24)
        # initdb wants a real file that its own user can read: /dev/stdin fails under root.
        handed_over = workshop / "password"
        write_private(handed_over, password)
        account.own(handed_over)
        account.own(workshop)
        account.run(*_initdb(binaries, workshop / "data", handed_over, durable=durable))
        write_private(home.password, password)
        (workshop / "data").rename(home.data)
        _sync_directory(home.path)
    except CommandError as error:
        raise PostgresFailed(
            f"PostgreSQL could not make its data directory {home.data}: {reason_in(error.output)}"
        ) from error
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _initdb(binaries: Binaries, data: Path, password: Path, *, durable: bool) -> list[str | Path]:
    locale = "C" if sys.platform == "darwin" else "C.UTF-8"
    return [
        binaries.initdb,
        f"--pgdata={data}",
        f"--username={SUPERUSER}",
        f"--pwfile={password}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        f"--locale={locale}",
        "--data-checksums",
        *([] if durable else ["--no-sync"]),
    ]


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
