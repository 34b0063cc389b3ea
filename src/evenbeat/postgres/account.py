"""Who runs PostgreSQL: it refuses root, so root has to hand it to somebody else."""

import contextlib
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres import commands
from evenbeat.postgres.commands import CommandError

ROOT = 0
# Stands for "anybody" while no service user exists yet.
STRANGER = 65534
SERVICE_USERS = ("evenbeat", "postgres")


@dataclass(frozen=True, slots=True)
class OsAccount:
    """One way to run PostgreSQL's programs; `uid` and `gid` own the files they make."""

    uid: int
    gid: int
    name: str
    switches: bool = False
    wrapper: tuple[str, ...] = ()

    def run(self, *command: str | Path) -> str:
        return commands.run(
            self._command(*command),
            uid=self.uid if self.switches else None,
            gid=self.gid if self.switches else None,
        )

    def spawn(
        self, *command: str | Path, log: IO[bytes], extra: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        return commands.spawn(
            self._command(*command),
            log=log,
            extra=extra,
            uid=self.uid if self.switches else None,
            gid=self.gid if self.switches else None,
        )

    def can_run(self, *command: str | Path) -> bool:
        try:
            self.run(*command)
        except CommandError:
            return False
        return True

    def can_enter(self, directory: Path) -> bool:
        # Trying it out, where reading modes would miss ACLs and security modules.
        return self.can_run("/bin/sh", "-c", 'cd -- "$0"', directory)

    def own(self, path: Path) -> None:
        if self.switches:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def _command(self, *command: str | Path) -> list[str]:
        return [*self.wrapper, *map(str, command)]


def account_for_data(data: Path) -> OsAccount:
    """The account that made this data directory is the one that can go on with it."""
    owner = data.stat()
    if os.geteuid() != ROOT:
        if owner.st_uid != os.geteuid():
            raise PostgresFailed(
                f"the data directory {data} belongs to {_name(owner.st_uid)}, and this process is "
                f"{_name(os.geteuid())}: run as {_name(owner.st_uid)}, or set EVENBEAT_DATA_DIR to "
                "a directory of your own"
            )
        return _plain()
    if owner.st_uid != ROOT:
        return OsAccount(owner.st_uid, owner.st_gid, _name(owner.st_uid), switches=True)
    account = _namespace()
    if account is None or not account.can_enter(data):
        raise PostgresFailed(
            f"the data directory {data} belongs to root, PostgreSQL refuses to run as root, and "
            "user namespaces are not allowed here: give the directory to a user of its own "
            f"(chown -R postgres {data.parent})"
        )
    return account


def account_for_new_data(directory: Path) -> OsAccount:
    """Who shall own a data directory that is to be made below `directory`."""
    if os.geteuid() != ROOT:
        _demand_passwd_entry()
        return _plain()
    service = _service_user(directory)
    if service is not None and service.can_enter(directory):
        return service
    namespace = _namespace()
    if namespace is not None and namespace.can_enter(directory):
        return namespace
    user = service or OsAccount(STRANGER, STRANGER, "any other user", switches=True)
    raise PostgresFailed(
        f"PostgreSQL refuses to run as root, and {_closed_part(directory, user)} cannot be entered "
        f"by {user.name}: set EVENBEAT_DATA_DIR to a directory elsewhere, such as /var/lib/evenbeat"
    )


def _plain() -> OsAccount:
    return OsAccount(os.geteuid(), os.getegid(), _name(os.geteuid()))


def _demand_passwd_entry() -> None:
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError as error:
        raise PostgresFailed(
            f"this process runs as uid {os.geteuid()}, which has no entry in /etc/passwd, and "
            "PostgreSQL cannot make a data directory without one: set EVENBEAT_DATABASE_URL to a "
            "server elsewhere, or run as a user that has an entry"
        ) from error


def _service_user(directory: Path) -> OsAccount | None:
    for name in SERVICE_USERS:
        with contextlib.suppress(KeyError):
            return _switching_to(pwd.getpwnam(name))
    # A user nobody could use in this directory is not worth making.
    if not OsAccount(STRANGER, STRANGER, "", switches=True).can_enter(directory):
        return None
    return _made_user(SERVICE_USERS[0])


def _made_user(name: str) -> OsAccount | None:
    # It fails where another starter was quicker: whether the user exists now is what counts.
    with contextlib.suppress(CommandError):
        commands.run(
            ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
        )
    with contextlib.suppress(KeyError):
        return _switching_to(pwd.getpwnam(name))
    return None


def _switching_to(entry: pwd.struct_passwd) -> OsAccount:
    return OsAccount(entry.pw_uid, entry.pw_gid, entry.pw_name, switches=True)


def _namespace() -> OsAccount | None:
    """Root under another name: files stay root's, PostgreSQL sees an ordinary user.

    Docker's default seccomp profile forbids it, which is why it is only the second choice.
    """
    unshare = shutil.which("unshare", path=commands.ENVIRONMENT["PATH"])
    if unshare is None:
        return None
    uid = _some_ordinary_uid()
    wrapper = (unshare, "--user", f"--map-user={uid}", f"--map-group={uid}", "--")
    account = OsAccount(ROOT, os.getegid(), "root", wrapper=wrapper)
    return account if account.can_run("/bin/sh", "-c", ":") else None


def _some_ordinary_uid() -> int:
    # initdb looks its user up in /etc/passwd, so it has to be one that is there.
    for uid in (1000, *(entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid != ROOT)):
        with contextlib.suppress(KeyError):
            return pwd.getpwuid(uid).pw_uid
    return STRANGER


def _closed_part(directory: Path, account: OsAccount) -> Path:
    """The topmost directory on the way that the account cannot enter."""
    way = [*reversed(directory.parents), directory]
    return next((part for part in way if not account.can_enter(part)), directory)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
