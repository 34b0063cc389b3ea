"""The user that runs PostgreSQL. It refuses root, so root must use another account."""

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
# Stands for any other user while there is no service user.
OTHER_UID = 65534
SERVICE_USERS = ("evenbeat", "postgres")


@dataclass(frozen=True, slots=True)
class OsAccount:
    """A user to run PostgreSQL's programs as; `uid` and `gid` own the files they make."""

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
        # Tried out: file modes alone say nothing of ACLs and security modules.
        return self.can_run("/bin/sh", "-c", 'cd -- "$0"', directory)

    def own(self, path: Path) -> None:
        if self.switches:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def _command(self, *command: str | Path) -> list[str]:
        return [*self.wrapper, *map(str, command)]


def account_for_data(data: Path) -> OsAccount:
    """The owner of this data directory: only that account can use it."""
    owner = data.stat()
    if os.geteuid() != ROOT:
        if owner.st_uid != os.geteuid():
            name = _user_name(owner.st_uid)
            raise PostgresFailed(
                f"the data directory {data} belongs to {name}, and this process is "
                f"{_user_name(os.geteuid())}: run as {name}, or set EVENBEAT_DATA_DIR to "
                "a directory of your own"
            )
        return _current_account()
    if owner.st_uid != ROOT:
        return OsAccount(owner.st_uid, owner.st_gid, _user_name(owner.st_uid), switches=True)
    account = _namespace_account()
    if account is None or not account.can_enter(data):
        raise PostgresFailed(
            f"the data directory {data} belongs to root, PostgreSQL refuses to run as root, and "
            "user namespaces are not allowed here: give the directory to a user of its own "
            f"(chown -R postgres {data.parent})"
        )
    return account


def account_for_new_data(directory: Path) -> OsAccount:
    """The account that will own a new data directory below `directory`."""
    if os.geteuid() != ROOT:
        _require_passwd_entry()
        return _current_account()
    service = _service_user(directory)
    if service is not None and service.can_enter(directory):
        return service
    namespace = _namespace_account()
    if namespace is not None and namespace.can_enter(directory):
        return namespace
    user = service or OsAccount(OTHER_UID, OTHER_UID, "any other user", switches=True)
    raise PostgresFailed(
        f"PostgreSQL refuses to run as root, and {_closed_part(directory, user)} cannot be entered "
        f"by {user.name}: set EVENBEAT_DATA_DIR to a directory elsewhere, such as /var/lib/evenbeat"
    )


def _current_account() -> OsAccount:
    return OsAccount(os.geteuid(), os.getegid(), _user_name(os.geteuid()))


def _require_passwd_entry() -> None:
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
            return _account_of(pwd.getpwnam(name))
    # No user is made that could not enter this directory anyway.
    if not OsAccount(OTHER_UID, OTHER_UID, "", switches=True).can_enter(directory):
        return None
    return _make_user(SERVICE_USERS[0])


def _make_user(name: str) -> OsAccount | None:
    # It fails if another process has just made the user: what counts is that the user exists.
    with contextlib.suppress(CommandError):
        commands.run(
            ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
        )
    with contextlib.suppress(KeyError):
        return _account_of(pwd.getpwnam(name))
    return None


def _account_of(entry: pwd.struct_passwd) -> OsAccount:
    return OsAccount(entry.pw_uid, entry.pw_gid, entry.pw_name, switches=True)


def _namespace_account() -> OsAccount | None:
    """Root in a user namespace: files belong to root, PostgreSQL sees an ordinary user.

    The second choice only: Docker's default seccomp profile forbids it.
    """
    unshare = shutil.which("unshare", path=commands.ENVIRONMENT["PATH"])
    if unshare is None:
        return None
    uid = _some_ordinary_uid()
    wrapper = (unshare, "--user", f"--map-user={uid}", f"--map-group={uid}", "--")
    account = OsAccount(ROOT, os.getegid(), "root", wrapper=wrapper)
    return account if account.can_run("/bin/sh", "-c", ":") else None


def _some_ordinary_uid() -> int:
    # initdb needs a user that is in /etc/passwd.
    for uid in (1000, *(entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid != ROOT)):
        with contextlib.suppress(KeyError):
            return pwd.getpwuid(uid).pw_uid
    return OTHER_UID


def _closed_part(directory: Path, account: OsAccount) -> Path:
    """The topmost parent that the account cannot enter."""
    parts = [*reversed(directory.parents), directory]
    return next((part for part in parts if not account.can_enter(part)), directory)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
