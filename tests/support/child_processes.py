"""Processes that a test's programs have started: their ids, and whether they are alive."""

from contextlib import suppress
from pathlib import Path

from tests.support.waiting import eventually


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie does not: in a container without init, none reaps it."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


async def pids_in(file: Path, count: int) -> list[int]:
    """Wait until `count` processes have written their ids to the file."""

    def read() -> list[int]:
        words = file.read_text().split() if file.exists() else []
        return [int(word) for word in words] if len(words) == count else []

    return await eventually(read, f"{count} processes")
