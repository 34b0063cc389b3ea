"""Processes of a benchmark: started, listened to, and always ended."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Started:
    """A program of this folder; what it prints can be read line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def line(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    async def rest(self) -> list[str]:
        assert self._process.stdout is not None
        return (await self._process.stdout.read()).decode().split()

    async def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        await self._process.wait()


@contextlib.asynccontextmanager
async def program(
    name: str, *arguments: str, count: int = 1, python: Path | str = sys.executable
) -> AsyncGenerator[list[Started]]:
    started = [
        Started(
            await asyncio.create_subprocess_exec(
                python,
                HERE / name,
                *arguments,
                stdout=subprocess.PIPE,
                env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            )
        )
        for _ in range(count)
    ]
    try:
        yield started
    finally:
        for each in started:
            await each.end()
