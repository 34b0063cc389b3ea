"""Programs on a node: stopped for every reason, killed with it, and logged while they run."""

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evenbeat.core.jobs.model import ErrorClass, RunState, State
from evenbeat.handlers.program.handler import Program
from evenbeat.store.runs import runs
from tests.engine.node_runner import NodeRunner
from tests.support.child_processes import is_alive, pids_in
from tests.support.processes import Process
from tests.support.waiting import eventually

GRACE = timedelta(seconds=5)
ONCE = {"max_attempts": 1}


def sleeper(file: Path) -> dict[str, Any]:
    """Starts two long-lived processes, one of them outside of its process group."""
    apart = f"setsid sh -c 'echo $$ >> {file}; sleep 600; true'"
    return {"command": f"{apart} & echo begun; echo $$ >> {file}; wait"}


async def test_what_a_program_says_is_there_while_it_runs(
    node_runner: NodeRunner, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    async with node_runner.node(Program(GRACE)):
        payload = {"command": f"echo one; cat {gate}; echo two >&2; exit 7"}
        job = await node_runner.add(kind="program", payload=payload, policy=ONCE)
        run = await node_runner.started(job)
        early = await eventually(
            lambda: runs.list_log_lines(node_runner.database, run.id, after=0, limit=10)
        )
        assert [line.message for line in early] == ["one"]
        gate.write_text("let through\n")
        ended = await node_runner.closed(job)
    assert (ended.state, ended.error) == (RunState.FAILED, "exited with 7: two")
    assert ended.result == {
        "exit_code": 7,
        "signal": None,
        "output": "one\nlet through\ntwo\n",
    }
    lines = await runs.list_log_lines(node_runner.database, run.id, after=0, limit=10)
    assert [(line.level, line.message) for line in lines] == [
        ("info", "one"),
        ("info", "let through"),
        ("warning", "two"),
    ]


@pytest.mark.parametrize("why", ["timeout", "cancel", "stop"])
async def test_no_process_is_left_of_a_program_that_was_stopped(
    node_runner: NodeRunner, tmp_path: Path, why: str
) -> None:
    file = tmp_path / "pids"
    policy = ONCE | ({"timeout": timedelta(seconds=1)} if why == "timeout" else {})
    async with node_runner.node(
        Program(GRACE), drain_timeout=timedelta(0), stop_grace=GRACE
    ) as stopping:
        job = await node_runner.add(kind="program", payload=sleeper(file), policy=policy)
        left = await pids_in(file, 2)
        if why == "cancel":
            await node_runner.cancel(job)
        if why == "stop":
            stopping.set()
        run = await node_runner.closed(job)
        assert [pid for pid in left if is_alive(pid)] == []
    expected = {
        "timeout": ErrorClass.TIMEOUT,
        "cancel": ErrorClass.CANCELLED,
        "stop": ErrorClass.HANDED_BACK,
    }
    assert run.error_class is expected[why]
    # A process that runs out of time shows how far it came.
    remains = {"exit_code": None, "signal": "SIGTERM", "output": "begun\n"}
    assert run.result == (remains if why == "timeout" else None)


async def test_a_program_does_not_outlive_a_node_that_is_killed(
    node_runner: NodeRunner, start: Callable[..., Process], tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    process = start("worker", EVENBEAT_PROGRAMS="on", EVENBEAT_STOP_GRACE="100ms")
    job = await node_runner.add(kind="program", payload=sleeper(file), policy=ONCE)
    left = await pids_in(file, 2)
    assert (await node_runner.find(job)).pulse.state is State.RUNNING
    process.signal(signal.SIGKILL)
    await eventually(lambda: not any(map(is_alive, left)), "the end of both")
