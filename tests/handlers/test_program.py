"""The kind program, with real processes: payloads, outcomes, and no process left over."""

import asyncio
import os
import pwd
import signal
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evenbeat.config import load
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.ids import run_uid
from evenbeat.core.jobs.model import Claimed
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done, Failed
from evenbeat.core.runs.registry import Registry
from evenbeat.core.runs.run_log import MOST_LINES, NO_MORE, LogLine
from evenbeat.engine.runs.active_run import run_handler
from evenbeat.engine.runs.handler_services import NodeServices
from evenbeat.handlers import built_in
from evenbeat.handlers.function import Function
from evenbeat.handlers.program import supervisor_client
from evenbeat.handlers.program.handler import Program
from evenbeat.handlers.program.supervisor_client import SupervisorClient
from evenbeat.handlers.sql_function import SqlFunction
from tests.core.given import claimed
from tests.support.child_processes import is_alive, pids_in
from tests.support.waiting import PATIENCE, eventually

WHOLE = {
    "command": "cat",
    "shell": "/bin/sh",
    "stdin": "in\n",
    "user": "root",
    "env": {"PATH": "/bin", "TOKEN": {"secret": "token"}},
    "cwd": "/",
    "ok_codes": [0, 3],
}
NOBODY = "nobody"
MOST_LINGERING = 10
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")


class RecordingServices(NodeServices):
    """Keeps log lines in a list instead of a database."""

    def __init__(self) -> None:
        super().__init__(None, MOST_LINGERING)
        self.lines: list[LogLine] = []
        self.begins = asyncio.Event()

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        self.begins.set()
        return await super().in_thread(function)

    def log(self, line: LogLine) -> None:
        self.lines.append(line)

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(line.level, line.message) for line in self.lines]


@pytest.fixture
def services() -> RecordingServices:
    return RecordingServices()


def job_of(payload: dict[str, Any]) -> Claimed:
    job = claimed()
    return replace(job, definition=replace(job.definition, kind="program", payload=payload))


class Running:
    """A run that can be awaited, and stopped as a node stops it."""

    def __init__(
        self, services: RecordingServices, payload: dict[str, Any], grace: timedelta
    ) -> None:
        handler, job = Program(grace), job_of(payload)
        handler.check(payload)
        self._context = RunContext(job, services)
        self._task = asyncio.ensure_future(run_handler(job, self._context, Registry([handler])))

    def stop(self) -> None:
        self._context.cancel()
        self._task.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._ended().__await__()

    async def _ended(self) -> Any:
        done, _ = await asyncio.wait([self._task], timeout=PATIENCE)
        assert done, "it did not end"
        return self._task.result()


Runs = Callable[..., Running]


@pytest.fixture
def run(services: RecordingServices) -> Runs:
    def run(command: str | list[Any], grace: float = PATIENCE, **more: Any) -> Running:
        return Running(services, {"command": command} | more, timedelta(seconds=grace))

    return run


# --- payloads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "is_served"), [({}, False), ({"programs": "on"}, True)])
def test_it_is_known_everywhere_and_served_where_it_is_wanted(
    setting: dict[str, str], is_served: bool
) -> None:
    registry = built_in(load(environ={}, **setting), Function(), SqlFunction())
    assert "program" in registry
    assert ("program" in registry.served) is is_served


def test_all_that_cron_knew_is_accepted() -> None:
    Program(timedelta()).check(WHOLE)
    Program(timedelta()).check({"command": "cat"})
    Program(timedelta()).check({"command": ["cat", {"secret": "file"}]})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"command": ""}, "payload.command"),
        ({"command": " "}, "payload.command"),
        ({"command": []}, "payload.command"),
        ({"command": [""]}, "payload.command"),
        ({"command": ["cat", 1]}, "payload.command"),
        ({"command": {"secret": "all"}}, "payload.command"),
        ({"command": ["cat"]}, "payload.shell"),
        ({"command": ["cat", {"secret": "/"}], "shell": None}, "payload.command[1].secret"),
        ({"stdin": 1}, "payload.stdin"),
        ({"env": {"A": 1}}, "payload.env"),
        ({"env": {"A=B": "1"}}, "payload.env"),
        ({"env": "A=1"}, "payload.env"),
        ({"cwd": 1}, "payload.cwd"),
        ({"user": ""}, "payload.user"),
        ({"ok_codes": []}, "payload.ok_codes"),
        ({"ok_codes": [256]}, "payload.ok_codes"),
        ({"ok_codes": [True]}, "payload.ok_codes"),
        ({"mailto": "me"}, "payload.mailto"),
    ],
)
def test_what_could_never_run_names_its_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Program(timedelta()).check(WHOLE | change)
    assert [each.field for each in refused.value.errors] == [field]


@pytest.mark.parametrize(
    ("payload", "field"), [({"command": ["ls", 5]}, "command"), ({"cmd": 1}, "cmd"), (7, "payload")]
)
async def test_what_was_never_checked_fails_for_good_and_names_its_field(
    services: RecordingServices, payload: Any, field: str
) -> None:
    job = job_of(payload)
    ended = await run_handler(
        job, RunContext(job, services), Registry([Program(timedelta(seconds=1))])
    )
    assert isinstance(ended, Failed)
    assert field in ended.error
    assert (ended.error_type, ended.is_final) == ("InvalidInput", True)


# --- the outcome -------------------------------------------------------------------------------


async def test_what_it_says_is_kept_line_by_line_and_its_end_as_the_result(
    run: Runs, services: RecordingServices
) -> None:
    ended = await run("printf 'one\\r\\ntwo\\n'; printf '\\377\\0end'; cat", stdin="in\n")
    output = "one\r\ntwo\n\ufffd\ufffdendin\n"
    assert ended == Done(result={"exit_code": 0, "signal": None, "output": output})
    assert services.said == [("info", "one"), ("info", "two"), ("info", "\ufffd\ufffdendin")]


async def test_a_code_that_is_not_good_fails_with_the_last_line_of_its_errors(
    run: Runs, services: RecordingServices
) -> None:
    command = "echo out; echo first >&2; echo 'no such table' >&2; echo >&2; exit 3"
    ended = await run(command)
    assert (ended.error, ended.error_type) == ("exited with 3: no such table", "exit 3")
    assert ended.result["exit_code"] == 3
    assert ("info", "out") in services.said
    assert [line for level, line in services.said if level == "warning"] == [
        "first",
        "no such table",
        "",
    ]
    assert isinstance(await run(command, ok_codes=[0, 3]), Done)
    assert (await run("exit 4")).error == "exited with 4"


async def test_a_signal_is_told_by_its_name(run: Runs) -> None:
    ended = await run("kill -SEGV $$")
    assert (ended.error, ended.error_type) == ("ended by SIGSEGV", "SIGSEGV")
    assert (ended.result["exit_code"], ended.result["signal"]) == (None, "SIGSEGV")


async def test_it_has_a_small_environment_of_its_own(
    run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_OTHER", "not for programs")
    monkeypatch.setenv("LANG", "en_GB.UTF-8")
    me, job = pwd.getpwuid(os.geteuid()), job_of({})
    ended = await run(["env"], env={"PATH": "/usr/bin:/bin:/more", "OWN": "=a b"})
    shown = dict(line.split("=", 1) for line in ended.result["output"].splitlines())
    assert shown == {
        "PATH": "/usr/bin:/bin:/more",
        "HOME": me.pw_dir,
        "LANG": "en_GB.UTF-8",
        "SHELL": "/bin/sh",
        "LOGNAME": me.pw_name,
        "USER": me.pw_name,
        "EVENBEAT_JOB_ID": str(job.uid),
        "EVENBEAT_RUN_ID": str(run_uid(job.run.id)),
        "EVENBEAT_BEAT": job.run.beat_at.isoformat() if job.run.beat_at else "",
        "EVENBEAT_ATTEMPT": str(job.run.attempt),
        "OWN": "=a b",
    }


async def test_it_begins_at_home_or_where_it_is_told_to(run: Runs, tmp_path: Path) -> None:
    async def place(**more: Any) -> str:
        return (await run("pwd -P", **more)).result["output"].strip()

    assert await place(env={"HOME": str(tmp_path)}) == str(tmp_path)
    assert await place(env={"HOME": "/nowhere"}) == "/"
    assert await place(cwd="/usr") == "/usr"
    assert (await run("pwd", cwd="/nowhere")).error == (
        "cannot be started in /nowhere: No such file or directory"
    )


async def test_the_shell_is_the_one_it_asks_for_and_a_list_needs_none(run: Runs) -> None:
    assert (await run('echo "$0 $SHELL"', shell="/bin/bash")).result["output"] == (
        "/bin/bash /bin/bash\n"
    )
    assert (await run(["echo", "$HOME", "a b"])).result["output"] == "$HOME a b\n"
    gone = await run("true", shell="/bin/nonesuch")
    assert gone.error == "cannot run /bin/nonesuch: No such file or directory"
    assert (gone.error_type, gone.is_final) == ("NotStarted", False)


async def test_programs_find_no_signal_ignored_that_python_ignores(run: Runs) -> None:
    ended = await run("grep -E 'Sig(Blk|Ign)' /proc/self/status")
    assert [int(line.split()[1], 16) for line in ended.result["output"].splitlines()] == [0, 0]


async def test_secrets_reach_it_and_are_masked_in_what_it_says(
    run: Runs, services: RecordingServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_SECRET_KEY", "open sesame 99")
    secret = {"secret": "key"}
    ended = await run(
        'test "$KEY" = "$(cat)" && echo "$KEY" && exit 9', stdin=secret, env={"KEY": secret}
    )
    assert ended.error == "exited with 9"
    assert services.said == [("info", "(secret)")]
    assert ended.result["output"] == "(secret)\n"
    # A cut line contains no half of a secret.
    await run(["printf", f"{'x' * 9_990}%s", secret])
    assert services.said[-1][1].startswith("xx")
    assert "open" not in services.said[-1][1]
    hint = (await run("printf %0495d 0 >&2; cat >&2; exit 1", stdin=secret)).error
    assert hint.endswith("0(secr")


@as_root
async def test_a_node_of_root_runs_it_as_another_user(run: Runs) -> None:
    other, mine = pwd.getpwnam(NOBODY), os.getgroups()
    # A group that the node has must not be the program's.
    os.setgroups([*mine, 4711])
    ended = await run(
        'echo "$(id -u) $(id -g) $(id -G) $LOGNAME"; exit 3', user=NOBODY, ok_codes=[3]
    )
    os.setgroups(mine)
    groups = " ".join(map(str, os.getgrouplist(NOBODY, other.pw_gid)))
    assert ended.result["output"] == f"{other.pw_uid} {other.pw_gid} {groups} {NOBODY}\n"


async def test_a_user_that_cannot_be_is_told_and_not_tried_again(
    run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = await run("true", user="nonesuch")
    assert gone.error == "payload.user: there is no user nonesuch on this node"
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    other = await run("true", user="root")
    assert other.error is not None
    assert other.error.startswith("only a node of root can run a program as root, and this one")
    assert (gone.is_final, other.is_final) == (True, True)


# --- much output, long runs --------------------------------------------------------------------


async def test_no_amount_of_output_holds_it_up_or_is_kept(
    run: Runs, services: RecordingServices
) -> None:
    command = (
        "yes err | head -c 1000000 >&2; yes 'a line of some length' | head -c 100000000; echo bye"
    )
    ended = await run(command)
    assert isinstance(ended, Done)
    assert len(ended.result["output"]) == 10_000
    assert ended.result["output"].endswith("bye\n")
    assert len(services.lines) == MOST_LINES + 1
    assert services.lines[-1].message == NO_MORE


async def test_a_line_without_an_end_is_cut(run: Runs, services: RecordingServices) -> None:
    await run("head -c 5000000 /dev/zero | tr '\\0' x")
    assert [len(message) for _, message in services.said] == [10_000]


async def test_what_stays_in_the_background_does_not_hold_up_the_run(
    run: Runs, tmp_path: Path
) -> None:
    began = time.monotonic()
    ended = await run(f"(echo later; exec sleep 600) & echo $! > {tmp_path}/pid; echo now; exit 0")
    assert isinstance(ended, Done)
    assert "now\n" in ended.result["output"]
    # Far below the ten minutes, on the busiest of machines.
    assert time.monotonic() - began < 60
    [left] = await pids_in(tmp_path / "pid", 1)
    assert is_alive(left), "as cron has it: who is put in the background stays there"
    os.kill(left, signal.SIGKILL)


# --- being stopped -----------------------------------------------------------------------------

# Three processes: itself, one in its group, and an orphan in a session of its own.
FAMILY = """
trap '' TERM
sh -c 'trap "" TERM; echo $$ >> {file}; sleep 600' &
(setsid sh -c 'trap "" TERM; echo $$ >> {file}; sleep 600; true' &)
echo $$ >> {file}
sleep 600
wait
"""


async def test_told_to_stop_it_and_all_it_started_are_gone_before_the_run_ends(
    run: Runs, tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    running = run(FAMILY.format(file=file), 0.2)
    pids = await pids_in(file, 3)
    assert all(map(is_alive, pids))
    running.stop()
    ended = await running
    assert (ended.error_type, ended.result["signal"]) == ("SIGKILL", "SIGKILL")
    assert [pid for pid in pids if is_alive(pid)] == []


async def test_told_to_stop_it_may_tidy_up_first(
    run: Runs, services: RecordingServices, tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    command = f"trap 'echo tidied; exit 0' TERM; echo $$ > {file}; while :; do sleep 0.01; done"
    running = run(command)
    await pids_in(file, 1)
    running.stop()
    ended = await running
    # It stopped as asked, but its work is not done.
    assert isinstance(ended, Failed)
    assert ("info", "tidied") in services.said


async def test_told_to_stop_before_it_has_begun_it_ends_as_well(
    run: Runs, services: RecordingServices
) -> None:
    running = run("sleep 600")
    await services.begins.wait()
    running.stop()
    assert isinstance(await running, Failed)


async def test_killing_its_supervisor_kills_the_program_too(run: Runs, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    running = run(f"echo $PPID $$ > {file}; sleep 600; true")
    supervisor, pid = await pids_in(file, 2)
    os.kill(supervisor, signal.SIGKILL)
    ended = await running
    assert ended.error == "the program's supervisor was killed, and the program with it"
    assert ended.error_type == "SupervisorLost"
    await eventually(lambda: not is_alive(pid), "the program's end")


async def test_if_the_supervisor_fails_the_program_and_its_group_are_killed(
    run: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = "    def _read_output(self, fd: int) -> None:\n"
    script = supervisor_client.SUPERVISOR_SCRIPT.read_text()
    assert reads in script
    faulty = script.replace(reads, f"{reads}        raise MemoryError('full')\n")
    monkeypatch.setattr(supervisor_client, "SUPERVISOR_SCRIPT", tmp_path / "supervisor.py")
    supervisor_client.SUPERVISOR_SCRIPT.write_text(faulty)
    file = tmp_path / "pids"
    ended = await run(f"sleep 600 & echo $! $$ > {file}; echo said; wait")
    assert ended.error == "the supervisor failed: MemoryError: full"
    assert ended.error_type == "SupervisorLost"
    left = await pids_in(file, 2)
    await eventually(lambda: not any(map(is_alive, left)), "the end of both")


async def test_it_dies_with_its_supervisor_even_if_no_node_watches(
    services: RecordingServices, tmp_path: Path
) -> None:
    file = tmp_path / "pids"
    job = job_of({"command": f"echo $$ > {file}; exec sleep 600"})
    client, theirs = await SupervisorClient.pair()
    payload, context = job.definition.payload, RunContext(job, services)
    started = supervisor_client.start_supervisor(theirs, payload, context, timedelta(seconds=1))
    client.send_order(started.order)
    [pid] = await pids_in(file, 1)
    started.process.kill()
    started.process.wait()
    client.close()
    await eventually(lambda: not is_alive(pid), "the program's end")
    # The loop closes it at its next turn.
    await asyncio.sleep(0)


async def test_no_zombie_is_left_of_it(run: Runs) -> None:
    before = children()
    await run("sh -c 'true & exit 0'; true")
    assert children() == before


async def test_it_ends_well_though_threads_of_others_hang(
    run: Runs, services: RecordingServices
) -> None:
    gate = threading.Event()
    running = run("cat", stdin="done\n")
    await services.begins.wait()
    hanging = [asyncio.ensure_future(services.in_thread(gate.wait)) for _ in range(MOST_LINGERING)]
    await asyncio.sleep(0)
    for each in [*hanging, *hanging]:
        each.cancel()
        await asyncio.sleep(0)
    assert services.lingering == MOST_LINGERING
    ended = await running
    gate.set()
    assert isinstance(ended, Done)


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
