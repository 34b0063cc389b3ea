"""The server's log file, and the line in it that says what went wrong."""

import errno
import os
import re
from pathlib import Path
from typing import IO

LARGEST_LOG = 10 * 1024 * 1024
_LARGEST_EXCERPT = 64 * 1024

_REASON = re.compile(r"\b(?:PANIC|FATAL|ERROR|error): +(.+)")
_DISK_FULL = os.strerror(errno.ENOSPC)
# PostgreSQL writes the second one if only a part of a page could be written.
_SIGNS_OF_A_FULL_DISK = (_DISK_FULL, "Check free disk space")


def open_log(path: Path) -> IO[bytes]:
    """Open for appending; a large file is renamed first."""
    if path.exists() and path.stat().st_size > LARGEST_LOG:
        path.replace(path.with_name(f"{path.name}.1"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "ab")


def read_from(path: Path, position: int) -> str:
    """What was logged since this position; of a long log only the end."""
    with path.open("rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(position, log.tell() - _LARGEST_EXCERPT))
        return log.read().decode(errors="replace")


def reason_in(output: str) -> str:
    """The last FATAL or ERROR, else the last line."""
    # A full disk causes all other errors.
    if any(sign in output for sign in _SIGNS_OF_A_FULL_DISK):
        return _DISK_FULL
    reasons = _REASON.findall(output)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return reasons[-1].strip() if reasons else (lines or ["it gave no reason"])[-1]
