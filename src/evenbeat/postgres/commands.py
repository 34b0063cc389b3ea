"""Runs other programs: without a shell, and without the environment of this process."""

import os
import subprocess
from collections.abc import Sequence
from typing import IO

# PATH finds sh and useradd. LC_ALL=C keeps PostgreSQL's messages in English, so that they can be
# recognised, and keeps macOS from starting a thread inside the postmaster.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
}

RUN_TIMEOUT = 120.0


class CommandError(Exception):
    """A program could not be executed, or its exit code was not 0; `output` is what it wrote."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        self.output = output
        super().__init__(f"{command[0]}: {output}")


def run(command: Sequence[str], *, uid: int | None = None, gid: int | None = None) -> str:
    """Run a program and return what it wrote; as another user if `uid` is given."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed programs, arguments passed one by one
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=ENVIRONMENT,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
            timeout=RUN_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandError(command, str(error)) from error
    output = os.fsdecode(done.stdout)
    if done.returncode != 0:
        raise CommandError(command, output or f"ended with {done.returncode}")
    return output


def spawn(
    command: Sequence[str],
    *,
    log: IO[bytes],
    extra: dict[str, str],
    uid: int | None = None,
    gid: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session, so that Ctrl-C in this terminal does not reach it."""
    return subprocess.Popen(  # noqa: S603 - fixed programs, arguments passed one by one
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd="/",
        env=ENVIRONMENT | extra,
        user=uid,
        group=gid,
        extra_groups=None if uid is None else [],
        start_new_session=True,
    )
