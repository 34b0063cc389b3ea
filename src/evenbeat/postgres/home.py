"""The directory of the embedded server: its files, and how it is made."""

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres.account import ROOT, OsAccount, account_for_new_data
from evenbeat.postgres.binaries import COPY_PREFIX

INITDB_PREFIX = ".evenbeat-initdb-"

# The path of a socket may have 108 bytes on Linux and 104 on macOS, with the final zero byte.
_LONGEST_SOCKET_PATH = 100
_LONGEST_SOCKET_NAME = "/.s.PGSQL.65535"
_SHORT_DIRECTORY = Path("/tmp")  # noqa: S108 - a private directory is made and checked in it


@dataclass(frozen=True, slots=True)
class Home:
    """The paths inside `EVENBEAT_DATA_DIR`."""

    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def password(self) -> Path:
        return self.path / "password"

    @property
    def log(self) -> Path:
        return self.path / "postgres.log"

    @property
    def users(self) -> Path:
        return self.path / "users"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    def socket_dir(self, uid: int) -> Path:
        """`run`, or a directory in /tmp if that path is too long or would be read as a list."""
        run = self.path / "run"
        if _fits_a_socket(run):
            return run
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        return _SHORT_DIRECTORY / f"evenbeat-{uid}-{digest}"

    def remove_short_socket_dir(self) -> None:
        """Remove the directory in /tmp after the server has stopped."""
        # Only the directory computed here, and only if empty. The pid file may name /tmp itself:
        # a server that was started by hand has its socket there.
        directory = self.socket_dir(self.data.stat().st_uid)
        if directory.parent == _SHORT_DIRECTORY:
            with contextlib.suppress(OSError):
                directory.rmdir()

    def make(self) -> None:
        """Make the directory, open only to this user and to the account that runs PostgreSQL."""
        if self.path.is_dir():
            return
        if os.path.lexists(self.path):
            raise PostgresFailed(
                f"{self.path} is not a directory: move it away, or set EVENBEAT_DATA_DIR to "
                "another directory"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if os.geteuid() != ROOT:
            self.path.mkdir(mode=0o700, exist_ok=True)
            return
        self._make_as_root(account_for_new_data(self.path.parent))

    def _make_as_root(self, account: OsAccount) -> None:
        # Root owns the directory and its log: otherwise an intruder with PostgreSQL's account could
        # put symlinks where root writes. The account may only pass through the directory.
        prepared = Path(tempfile.mkdtemp(prefix=".evenbeat-", dir=self.path.parent))
        try:
            if account.switches:
                os.chown(prepared, ROOT, account.gid)
                prepared.chmod(0o710)
            prepared.rename(self.path)
        except OSError:
            prepared.rmdir()
            # Another process has made it in the meantime: rename does not replace a full directory.
            if not self.path.is_dir():
                raise

    def sweep(self) -> None:
        """Remove what killed processes left unfinished. Call it only under the lock."""
        for prefix in (INITDB_PREFIX, COPY_PREFIX):
            for unfinished in self.path.glob(f"{prefix}*"):
                shutil.rmtree(unfinished, ignore_errors=True)

    def read_password(self) -> str:
        try:
            return self.password.read_text().strip()
        except FileNotFoundError as error:
            raise PostgresFailed(
                f"{self.password} is missing, and without it the server in {self.path} "
                "accepts no connection: restore the file from a backup"
            ) from error


def make_private_directory(path: Path, account: OsAccount) -> None:
    """Make a directory for this account only; PostgresFailed if another user made it."""
    try:
        path.mkdir(mode=0o700)
        account.own(path)
    except FileExistsError:
        found = path.lstat()
        closed = not found.st_mode & 0o077
        if not (stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and closed):
            raise PostgresFailed(
                f"{path} is not a directory that belongs to {account.name} alone (mode 0700): "
                "remove it, and find out which user made it"
            ) from None


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read, and flush it to disk."""
    # The old file is removed first: it would keep its mode and its hard links.
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def translate_os_errors(home: Path) -> Generator[None]:
    """Turn an OSError into PostgresFailed, in one line with the path."""
    try:
        yield
    except OSError as error:
        where = error.filename or home
        raise PostgresFailed(
            f"cannot keep PostgreSQL's data in {home}: {error.strerror or error} ({where}); make "
            "it writable, or set EVENBEAT_DATA_DIR to another directory"
        ) from error


def _fits_a_socket(directory: Path) -> bool:
    # PostgreSQL and libpq read a comma or a quote in this path as part of a list of paths.
    path = f"{directory}{_LONGEST_SOCKET_NAME}"
    return len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH and not set(path) & {",", '"'}
