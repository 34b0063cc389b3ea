"""Processes that a test's programs have started: who they are, and whether they live."""

from contextlib import suppress
from pathlib import Path

from tests.support.waiting import eventually


def is_alive(pid: int) -> bool:
    """A zombie is not: nobody has taken leave of it yet, as in containers without an init."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


async def pids_in(file: Path, count: int) -> list[int]:
    """The processes that have written their numbers there."""

    def look() -> list[int]:
        words = file.read_text().split() if file.exists() else []
        return [int(word) for word in words] if len(words) == count else []

    return await eventually(look, f"{count} processes")
