"""Locks between processes, which the kernel drops when their holder is killed."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres.postmaster import wait_until

LOCKED_WITHIN = 180.0


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Alone in starting and stopping, among all processes and threads that use this path."""
    descriptor = _open(path)
    try:
        if not wait_until(lambda: _take(descriptor, fcntl.LOCK_EX), within=LOCKED_WITHIN):
            raise PostgresFailed(
                f"another process has been starting or stopping PostgreSQL in {path.parent} for "
                f"{LOCKED_WITHIN:.0f} s: see who holds {path}"
            )
        yield
    finally:
        os.close(descriptor)


class Share:
    """One user's share of the server; taken, asked and given back only under the lock.

    Turning a shared lock into an exclusive one is not atomic: only because nobody can take a
    share meanwhile is the answer of `is_the_last` true until the lock is left.
    """

    def __init__(self, path: Path) -> None:
        # Not inheritable (PEP 446): the postmaster must not hold a share of itself.
        self._descriptor = _open(path)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def is_the_last(self) -> bool:
        alone = _take(self._descriptor, fcntl.LOCK_EX)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        return alone

    def give_back(self) -> None:
        # Unlocked by name: a forked child may still have the descriptor open.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _take(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
