"""Makes a data directory: it appears under its name only when it is complete."""

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
    """Whether there is a data directory; PostgresFailed if something else is there."""
    if (data / "PG_VERSION").exists():
        return True
    if os.path.lexists(data) and not (data.is_dir() and not any(data.iterdir())):
        raise PostgresFailed(
            f"{data} is not a data directory of PostgreSQL (it has no PG_VERSION) and not empty: "
            "move it away, or set EVENBEAT_DATA_DIR to another directory"
        )
    return False


def make_cluster(home: Home, account: OsAccount, binaries: Binaries, *, durable: bool) -> None:
    """Run initdb in a directory beside the final one, and rename the result."""
    unfinished = Path(tempfile.mkdtemp(prefix=INITDB_PREFIX, dir=home.path))
    try:
        password = secrets.token_urlsafe(24)
        # initdb needs a real file that its user can read: /dev/stdin fails under root.
        password_file = unfinished / "password"
        write_private(password_file, password)
        account.own(password_file)
        account.own(unfinished)
        account.run(*_initdb(binaries, unfinished / "data", password_file, durable=durable))
        write_private(home.password, password)
        (unfinished / "data").rename(home.data)
        _sync_directory(home.path)
    except CommandError as error:
        raise PostgresFailed(
            f"PostgreSQL could not make its data directory {home.data}: {reason_in(error.output)}"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


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
