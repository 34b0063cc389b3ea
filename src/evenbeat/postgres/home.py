"""The directory the embedded server lives in: what is where, and how it is made."""

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

# A socket's path has 108 bytes on Linux and 104 on macOS, its end included.
_LONGEST_SOCKET_PATH = 100
_LONGEST_SOCKET_NAME = "/.s.PGSQL.65535"
_SHORT_PLACE = Path("/tmp")  # noqa: S108 - a private directory is made and checked in it


@dataclass(frozen=True, slots=True)
class Home:
    """The places inside `EVENBEAT_DATA_DIR`."""

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
        """`run`, or a short place in /tmp where its path is too long, or would be read as two."""
        run = self.path / "run"
        if _fits_a_socket(run):
            return run
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        return _SHORT_PLACE / f"evenbeat-{uid}-{digest}"

    def remove_short_socket_dir(self) -> None:
        """Leave nothing in /tmp once the server has stopped."""
        # The directory computed here and nothing the pid file names: a server started by hand
        # has its socket in /tmp itself. And only if empty.
        place = self.socket_dir(self.data.stat().st_uid)
        if place.parent == _SHORT_PLACE:
            with contextlib.suppress(OSError):
                place.rmdir()

    def make(self) -> None:
        """Make the directory, open to nobody but us and the account PostgreSQL will run as."""
        if self.path.is_dir():
            return
        if os.path.lexists(self.path):
            raise PostgresFailed(
                f"{self.path} is not a directory: move it away, or set EVENBEAT_DATA_DIR to "
                "another place"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if os.geteuid() != ROOT:
            self.path.mkdir(mode=0o700, exist_ok=True)
            return
        self._make_as_root(account_for_new_data(self.path.parent))

    def _make_as_root(self, account: OsAccount) -> None:
        # Root keeps the directory and its log: whoever gets hold of PostgreSQL's account must
        # not be able to put symlinks where root writes. The account may pass through, no more.
        prepared = Path(tempfile.mkdtemp(prefix=".evenbeat-", dir=self.path.parent))
        try:
            if account.switches:
                os.chown(prepared, ROOT, account.gid)
                prepared.chmod(0o710)
            prepared.rename(self.path)
        except OSError:
            prepared.rmdir()
            # Another starter was quicker: a directory with something in it is not replaced.
            if not self.path.is_dir():
                raise

    def sweep(self) -> None:
        """Remove what starters killed halfway left behind. Only under the lock."""
        for prefix in (INITDB_PREFIX, COPY_PREFIX):
            for unfinished in self.path.glob(f"{prefix}*"):
                shutil.rmtree(unfinished, ignore_errors=True)

    def read_password(self) -> str:
        try:
            return self.password.read_text().strip()
        except FileNotFoundError as error:
            raise PostgresFailed(
                f"{self.password} is missing, and without it the server in {self.path} lets "
                "nobody in: restore the file from a backup"
            ) from error


def make_private_directory(path: Path, account: OsAccount) -> None:
    """A directory for this account alone; one that somebody else made is refused."""
    try:
        path.mkdir(mode=0o700)
        account.own(path)
    except FileExistsError:
        found = path.lstat()
        closed = not found.st_mode & 0o077
        if not (stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and closed):
            raise PostgresFailed(
                f"{path} is not a directory that belongs to {account.name} alone (mode 0700): "
                "remove it, and make sure that nobody else put it there"
            ) from None


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody but us can read, on disk when this returns."""
    # Made anew: one that is there already would keep its mode and its other names.
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def plain_errors(home: Path) -> Generator[None]:
    """Say in one line what the system refused, and where."""
    try:
        yield
    except OSError as error:
        where = error.filename or home
        raise PostgresFailed(
            f"cannot keep PostgreSQL's data in {home}: {error.strerror or error} ({where}); make "
            "it writable, or set EVENBEAT_DATA_DIR to another directory"
        ) from error


def _fits_a_socket(directory: Path) -> bool:
    # PostgreSQL and libpq read commas as "or that one", and quotes as part of such a list.
    path = f"{directory}{_LONGEST_SOCKET_NAME}"
    return len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH and not set(path) & {",", '"'}
