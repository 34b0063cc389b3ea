"""The end of a process: a hung handler cannot hold it up, and nothing else is cut off."""

import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.processes import Process

PROGRAM = Path(__file__).parents[1] / "programs" / "after_run.py"
END = "the script has come to its end"


@pytest.fixture
async def stopped(
    environ: dict[str, str], tmp_path: Path
) -> AsyncIterator[Callable[[str], Awaitable[Process]]]:
    """Starts the script, sends SIGTERM once it is ready, and waits for its end."""
    started: list[Process] = []

    async def run(slow: str) -> Process:
        program = (sys.executable, PROGRAM)
        script = Process(slow, environ=environ, cwd=tmp_path, program=program)
        started.append(script)
        await script.says("Evenbeat is ready")
        script.signal(signal.SIGTERM)
        assert await script.ended() == 0
        return script

    yield run
    for script in started:
        script.kill()


async def test_code_after_run_takes_as_long_as_it_likes(
    stopped: Callable[[str], Awaitable[Process]],
) -> None:
    assert END in (await stopped("code after it")).output


async def test_a_slow_flush_of_traces_is_not_cut_off(
    stopped: Callable[[str], Awaitable[Process]],
) -> None:
    output = (await stopped("flush")).output
    assert "all spans are sent" in output
    assert END in output


async def test_a_flush_of_traces_that_hangs_does_not_hold_up_the_script(
    stopped: Callable[[str], Awaitable[Process]],
) -> None:
    output = (await stopped("flush that hangs")).output
    assert "all spans are sent" not in output
    assert END in output


async def test_a_thread_that_hangs_does_not_keep_the_loop_from_closing(
    stopped: Callable[[str], Awaitable[Process]],
) -> None:
    """Python offers no other way to end such a thread: the process ends, and no code follows."""
    assert END not in (await stopped("thread of the loop")).output


async def test_a_thread_that_hangs_does_not_hold_up_the_end_of_a_command(
    stopped: Callable[[str], Awaitable[Process]],
) -> None:
    assert END in (await stopped("thread of a command")).output
