"""Real processes that place at once, and one that dies between adding a job and placing it."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import START
from tests.placement.placed_jobs import PlacedJobs
from tests.support.processes import Process
from tests.support.waiting import eventually

PROGRAM = Path(__file__).with_name("programs") / "add_jobs.py"
Add = Callable[..., Process]


@pytest.fixture
def add(environ: dict[str, str], tmp_path: Path) -> Iterator[Add]:
    """Starts a process that adds so many jobs."""
    started: list[Process] = []

    def begin(count: int, **more: str) -> Process:
        environment = environ | {"EVENBEAT_BALANCING": "on"} | more
        program = (sys.executable, PROGRAM)
        started.append(Process(str(count), environ=environment, cwd=tmp_path, program=program))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


async def over(process: Process, patience: float = 60) -> int:
    code = await eventually(
        lambda: None if process.exit_code is None else [process.exit_code], process.output, patience
    )
    return code[0]


@pytest.mark.parametrize("count", [160, pytest.param(2_000, marks=pytest.mark.proof)])
async def test_four_processes_that_place_at_once_are_as_even_as_one(
    placed_jobs: PlacedJobs, add: Add, count: int
) -> None:
    processes = [add(count // 4) for _ in range(4)]
    for process in processes:
        assert await over(process, 300) == 0, process.output
    ring = await placed_jobs.true_ring()
    assert ring.job_count == count
    assert ring.slot.max() <= ring.slot.mean() * 1.01 + 1
    assert ring.slot.min() >= ring.slot.mean() * 0.99 - 1
    late = "select count(*) from evenbeat.placement where placed_at is distinct from $1"
    assert await placed_jobs.value(late, START) == 0


@pytest.mark.parametrize("step", ["before_placement", "before_placement_commit"])
async def test_a_job_whose_process_died_before_it_was_placed_is_placed_by_a_node(
    placed_jobs: PlacedJobs, add: Add, step: str
) -> None:
    process = add(10, EVENBEAT_FAILPOINT=f"{step}:kill")
    assert await over(process) == -signal.SIGKILL
    stored = await placed_jobs.value("select count(*) from evenbeat.job")
    assert stored > 0
    assert await placed_jobs.value("select count(*) from evenbeat.placement") == 0
    await eventually(placed_jobs.placement.place_waiting)
    assert await placed_jobs.count() == stored
    first = await placed_jobs.value(
        "select max(next_beat_at) from evenbeat.pulse where state = 's'"
    )
    assert await placed_jobs.value(
        "select count(*) from evenbeat.placement where placed_at = $1", START
    )
    assert first <= START.replace(hour=14)
