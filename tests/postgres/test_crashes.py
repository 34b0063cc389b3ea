"""Whatever was killed or left behind, the next start finds its way, and harms nobody."""

import asyncio
import os
import signal
import subprocess
import threading

import pytest
import structlog

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres import launch
from evenbeat.postgres.postmaster import PidFile, Postmaster
from tests.postgres.support import kill_postmaster, query, server_at, wait_for


async def test_a_killed_postmaster_is_recovered_by_the_next_user_with_all_rows(home):
    server = server_at(home, durable=True)
    server.acquire()
    await query(server.url(), "create table kept as select 42 as value")
    killed = kill_postmaster(server)
    with server_at(home, durable=True) as another:
        assert another.pid != killed
        assert await query(another.url(), "select value from kept") == 42
    assert "automatic recovery in progress" in (home / "postgres.log").read_text()
    server.release()
    assert server.pid is None


def test_ensure_running_says_whether_it_had_to_start_the_server_again(home):
    with server_at(home) as server:
        assert server.ensure_running() is False
        kill_postmaster(server)
        assert server.ensure_running() is True


def test_ensure_running_needs_a_share(home):
    with pytest.raises(PostgresFailed, match="acquire it first"):
        server_at(home).ensure_running()


async def test_supervise_starts_a_killed_postmaster_again(home):
    restarted = asyncio.Event()
    with server_at(home) as server:
        guard = asyncio.create_task(server.supervise(check_every=0.01, on_restart=restarted.set))
        killed = kill_postmaster(server)
        await asyncio.wait_for(restarted.wait(), 30)
        assert server.pid not in (None, killed)
        assert await query(server.url(), "select 1") == 1
        guard.cancel()
        with pytest.raises(asyncio.CancelledError):
            await guard


async def test_supervise_says_why_it_cannot_restart_and_keeps_trying(home):
    restarted = asyncio.Event()
    version, hidden = home / "data" / "PG_VERSION", home / "data" / "hidden"
    with server_at(home) as server, structlog.testing.capture_logs() as logs:
        version.rename(hidden)
        kill_postmaster(server)
        guard = asyncio.create_task(server.supervise(check_every=0.01, on_restart=restarted.set))
        await asyncio.to_thread(wait_for, lambda: len(_failures(logs)) >= 2)
        failures = _failures(logs)
        assert "no PG_VERSION" in failures[0]["reason"]
        assert failures[0]["retry_after"] < failures[1]["retry_after"]
        hidden.rename(version)
        await asyncio.wait_for(restarted.wait(), 30)
        guard.cancel()
        with pytest.raises(asyncio.CancelledError):
            await guard


async def test_a_busy_backend_of_a_killed_postmaster_is_waited_for(home):
    with server_at(home) as server:
        endless = asyncio.create_task(
            query(server.url(), "select count(*) from generate_series(1, 1e12) -- endless")
        )
        pid = await asyncio.to_thread(_backend_at_work, server)
        kill_postmaster(server)
        starter = threading.Thread(target=server.ensure_running)
        starter.start()
        log = home / "postgres.log"
        await asyncio.to_thread(wait_for, lambda: "pre-existing shared memory" in log.read_text())
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(starter.join)
        assert await query(server.url(), "select 1") == 1
        assert await asyncio.gather(endless, return_exceptions=True)


def test_a_pid_file_of_a_dead_process_is_no_obstacle(home):
    with server_at(home):
        text = (home / "data" / "postmaster.pid").read_text()
    dead = subprocess.Popen(["true"])
    dead.wait()
    _write_pid_file(home, text, dead.pid)
    with server_at(home) as server:
        assert server.pid not in (None, dead.pid)


def test_an_unrelated_process_that_got_the_old_pid_survives(home):
    with server_at(home):
        text = (home / "data" / "postmaster.pid").read_text()
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        _write_pid_file(home, text, bystander.pid)
        server = server_at(home)
        assert server.pid is None
        with server:
            assert server.pid not in (None, bystander.pid)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_an_unrelated_process_in_the_data_directory_is_not_taken_for_the_server(home):
    with server_at(home):
        text = (home / "data" / "postmaster.pid").read_text()
    bystander = subprocess.Popen(["sleep", "60"], cwd=home / "data")
    try:
        _write_pid_file(home, text, bystander.pid)
        with server_at(home):
            pass
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("text", ["", "no pid\n"])
def test_a_pid_file_that_says_nothing_is_removed_when_no_server_is_at_work(home, text):
    with server_at(home):
        pass
    (home / "data" / "postmaster.pid").write_text(text)
    with server_at(home) as server:
        assert server.pid is not None


def test_a_lock_file_of_the_socket_with_a_pid_of_somebody_else_is_no_obstacle(open_home):
    with server_at(open_home):
        pass
    # Of the same user: PostgreSQL itself ignores the pids of others.
    uid, _ = _owner(open_home / "data")
    bystander = subprocess.Popen(["sleep", "60"], cwd="/", user=uid)
    try:
        (open_home / "run" / ".s.PGSQL.5432.lock").write_text(f"{bystander.pid}\n")
        with server_at(open_home) as server:
            assert server.pid is not None
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_pid_file_that_says_nothing_is_kept_while_a_server_is_at_work(home, monkeypatch):
    monkeypatch.setattr(launch, "OLD_BACKENDS_TIMEOUT", 0.1)
    pid_file = home / "data" / "postmaster.pid"
    with server_at(home):
        text = pid_file.read_text()
        pid_file.write_text("")
        with pytest.raises(PostgresFailed, match="cannot be read, but a PostgreSQL is at work"):
            server_at(home).acquire()
        pid_file.write_text(text)


def test_a_server_that_cannot_be_seen_but_answers_is_not_started_twice(home):
    with server_at(home) as server:
        # As from a container with another process table: the pid means somebody else here.
        pid_file = home / "data" / "postmaster.pid"
        text = pid_file.read_text()
        _write_pid_file(home, text, os.getpid())
        with pytest.raises(PostgresFailed, match="this process cannot see"):
            server_at(home).acquire()
        pid_file.write_text(text)
        assert server.pid is not None


def test_a_server_that_recovers_for_long_is_left_to_it_and_found_later(home, monkeypatch):
    with server_at(home):
        pass
    # Recovery asks for WAL by this command, and waits for as long as it takes.
    (home / "data" / "recovery.signal").touch()
    os.chown(home / "data" / "recovery.signal", *_owner(home / "data"))
    gate = home / "run" / "gate"
    slow = server_at(
        home, settings={"restore_command": f"while ! [ -e {gate} ]; do :; done; false"}
    )
    with monkeypatch.context() as patched:
        patched.setattr(launch, "READY_TIMEOUT", 0.5)
        with pytest.raises(PostgresFailed, match=r"still recovering .*postgres\.log"):
            slow.acquire()
        recovering = slow.pid
        assert recovering is not None
    gate.touch()
    with slow:
        assert slow.pid == recovering
    assert slow.pid is None


def _write_pid_file(home, text, pid):
    (home / "data" / "postmaster.pid").write_text(f"{pid}\n{text.partition(chr(10))[2]}")
    assert PidFile.read(home / "data").pid == pid
    assert Postmaster(home / "data").running() is None


def _owner(path):
    return path.stat().st_uid, path.stat().st_gid


def _failures(logs):
    return [line for line in logs if line["event"] == "PostgreSQL not restarted"]


def _backend_at_work(server):
    looking = (
        "select pid from pg_stat_activity where query like '%endless' and pid <> pg_backend_pid()"
    )
    return wait_for(lambda: asyncio.run(query(server.url(), looking)))
