"""What a user of the embedded server gets: an address that works, and nothing open to others."""

import asyncio
import os
import socket
import stat
import subprocess
from pathlib import Path

import asyncpg
import pytest

from evenbeat.core.errors import PostgresFailed
from evenbeat.postgres.binaries import choose_binaries
from evenbeat.postgres.log import LARGEST_LOG
from tests.postgres.support import free_port, query, server_at


async def test_asyncpg_and_psql_both_take_the_address(home):
    with server_at(home) as server:
        psql = choose_binaries(None, home / "data").directory / "psql"
        assert _output(psql, server.url(), "-Atc", "select current_database()") == "evenbeat\n"
        assert await query(server.url(), "select current_user") == "evenbeat"
        assert await query(server.url("postgres"), "select current_database()") == "postgres"


async def test_the_server_is_set_up_as_promised(home):
    promised = {
        "listen_addresses": "",
        "data_checksums": "on",
        "server_encoding": "UTF8",
        "lc_messages": "C.UTF-8",
        "password_encryption": "scram-sha-256",
        "jit": "off",
        "max_connections": "200",
        "TimeZone": "UTC",
        "log_timezone": "UTC",
        "fsync": "on",
        "work_mem": "5MB",
    }
    with server_at(home, durable=True, settings={"work_mem": "5MB"}) as server:
        for name, value in promised.items():
            assert await query(server.url(), f"select current_setting('{name}')") == value
        methods = "select string_agg(distinct auth_method, ',') from pg_hba_file_rules"
        assert await query(server.url(), methods) == "scram-sha-256"


async def test_a_server_for_tests_does_not_wait_for_the_disk(home):
    with server_at(home, durable=False) as server:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert await query(server.url(), f"select current_setting('{name}')") == "off"


async def test_a_port_is_served_on_loopback_and_wants_the_password(home):
    port = free_port()
    with server_at(home, port=port) as server:
        password = (home / "password").read_text()
        address = f"postgresql://evenbeat:{{}}@127.0.0.1:{port}/evenbeat"
        assert await query(address.format(password), "select 1") == 1
        with pytest.raises(asyncpg.InvalidPasswordError):
            await query(address.format("wrong"), "select 1")
        assert await query(server.url(), "select inet_server_addr() is null") is True


def test_a_busy_port_is_named_together_with_its_setting(home):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PostgresFailed, match=rf"port {port} .*EVENBEAT_PG_PORT"):
            server_at(home, port=port).acquire()


def test_a_port_cannot_be_added_to_a_server_that_others_use(home):
    with server_at(home), pytest.raises(PostgresFailed, match="its socket alone"):
        server_at(home, port=free_port()).acquire()


def test_a_port_can_be_added_to_a_server_that_nobody_uses(home, holder):
    orphaned = holder(home)
    first = orphaned.wait_until_it_holds()
    orphaned.kill()
    with server_at(home, port=free_port()) as server:
        assert server.pid not in (None, first)


async def test_the_database_is_made_again_when_it_is_missing(home):
    with server_at(home) as server:
        await query(server.url("postgres"), "drop database evenbeat")
        server.acquire()
        assert await query(server.url(), "select 1") == 1


def test_nothing_is_open_to_others(home):
    with server_at(home):
        for path in (home / "data", home / "run"):
            assert _mode(path) == 0o700
        for name in ("password", "lock", "users", "postgres.log"):
            assert _mode(home / name) == 0o600
        assert _mode(home) == 0o700


def test_a_home_that_exists_keeps_its_mode(home):
    home.mkdir(mode=0o755)
    with server_at(home):
        assert _mode(home) == 0o755


def test_the_server_gets_a_session_of_its_own_and_a_bare_environment(home, monkeypatch):
    monkeypatch.setenv("EVENBEAT_JWT_SECRET", "not for the database")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=1GB")
    with server_at(home) as server:
        process = Path(f"/proc/{server.pid}")
        assert os.getsid(server.pid) == server.pid
        names = {part.partition(b"=")[0] for part in _split(process / "environ")}
        assert names <= {b"PATH", b"LC_ALL"}
        assert (process / "fd" / "0").readlink() == Path("/dev/null")


def test_a_long_path_gets_its_socket_in_a_short_private_place(home):
    long_home = home / ("deep" * 20)
    with server_at(long_home) as server:
        place = Path(server._address.socket_dir)
        assert len(str(place)) < 60
        assert _mode(place) == 0o700
        assert asyncio.run(query(server.url(), "select 1")) == 1
    assert not place.exists()


def test_a_short_place_that_somebody_else_prepared_is_refused(home, tmp_path):
    long_home = home / ("deep" * 20)
    with server_at(long_home) as server:
        place = Path(server._address.socket_dir)
    place.symlink_to(tmp_path)
    try:
        with pytest.raises(PostgresFailed, match=f"{place} is not a directory that belongs to"):
            server.acquire()
    finally:
        place.unlink()


async def test_a_path_with_unusual_characters_works(open_home):
    with server_at(open_home / 'my, "own" dåta & more?') as server:
        assert await query(server.url(), "select 1") == 1


def test_a_log_that_has_grown_large_is_put_aside(home):
    with server_at(home):
        pass
    os.truncate(home / "postgres.log", LARGEST_LOG + 1)
    with server_at(home):
        assert (home / "postgres.log").stat().st_size < LARGEST_LOG
        assert (home / "postgres.log.1").stat().st_size > LARGEST_LOG


def test_the_address_is_known_only_to_those_who_acquired(home):
    with pytest.raises(PostgresFailed, match="acquire it first"):
        server_at(home).url()


def _output(*command) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _split(path: Path) -> list[bytes]:
    return [part for part in path.read_bytes().split(b"\0") if part]
