"""Locks between processes; the kernel releases them when their holder is killed."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres.postmaster import wait_until

LOCK_TIMEOUT = 180.0


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock for starting and stopping, against all processes and threads with this path."""
    descriptor = _open(path)
    try:
        if not wait_until(lambda: _try_lock(descriptor, fcntl.LOCK_EX), within=LOCK_TIMEOUT):
            raise PostgresFailed(
                f"another process has been starting or stopping PostgreSQL in {path.parent} for "
                f"{LOCK_TIMEOUT:.0f} s: find the process that holds {path}"
            )
        yield
    finally:
        os.close(descriptor)


class Share:
    """One process's share of the server; take, check and release it only under the lock.

    Turning a shared lock into an exclusive one is not atomic. Under the lock no other process can
    take a share, so the answer of `is_the_last` holds until the lock is released.
    """

    def __init__(self, path: Path) -> None:
        # The descriptor is not inheritable (PEP 446): the postmaster must not hold a share.
        self._descriptor = _open(path)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def is_the_last(self) -> bool:
        is_alone = _try_lock(self._descriptor, fcntl.LOCK_EX)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        return is_alone

    def release(self) -> None:
        # Unlocked explicitly: a forked child may still have the descriptor open.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
