"""The primary dies and its standby is promoted: nothing acknowledged is lost."""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from evenbeat.postgres import EmbeddedServer
from evenbeat.postgres.binaries import find_program
from evenbeat.postgres.postmaster import Postmaster
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import Database
from tests.postgres.support import free_port, stop_for_certain
from tests.proofs.fleet import Fleet, environ_for
from tests.support.acknowledged import Client, missing_runs
from tests.support.poolers import over_tcp
from tests.support.waiting import eventually

pytestmark = pytest.mark.proof


@dataclass
class Pair:
    """A primary that acknowledges nothing its standby does not have on disk, and the standby."""

    primary: EmbeddedServer
    standby: EmbeddedServer
    place: Path

    @property
    def url(self) -> str:
        """Of both: whoever takes writes is meant."""
        first, second = (urlsplit(over_tcp(each.url())) for each in (self.primary, self.standby))
        return f"postgresql://{first.netloc},127.0.0.1:{second.port}{first.path}"

    def kill_primary(self) -> None:
        """With everything that belongs to it, as when its machine fails."""
        postmaster = Postmaster((self.place / "primary" / "data").resolve())
        pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
        for pid in [pid for pid in pids if postmaster.is_ours(pid)]:
            os.kill(pid, signal.SIGKILL)

    async def promote(self) -> None:
        connection = await asyncpg.connect(self.standby.url())
        assert await connection.fetchval("select pg_promote()")
        await connection.close()


def copy_of(primary: EmbeddedServer, place: Path, home: Path) -> EmbeddedServer:
    """A standby, made by pg_basebackup; it belongs to whoever the primary belongs to."""
    home.mkdir()
    home.chmod(0o755)
    backup = [find_program("pg_basebackup", None), "-d", primary.url("postgres"), "-R", "-X"]
    subprocess.run([*backup, "stream", "-c", "fast", "-D", home / "data"], check=True)
    owner = (place / "data").stat()
    for path in (home / "data", *(home / "data").rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    shutil.copy(place / "password", home / "password")
    standby = EmbeddedServer(home, port=free_port())
    standby.acquire()
    return standby


@pytest.fixture
async def pair(home: Path) -> AsyncIterator[Pair]:
    primary = EmbeddedServer(home / "primary", port=free_port())
    primary.acquire()
    await migrations.migrate(primary.url())
    standby = copy_of(primary, home / "primary", home / "standby")
    connection = await asyncpg.connect(primary.url())
    await connection.execute("alter system set synchronous_standby_names = '*'")
    await connection.execute("select pg_reload_conf()")
    is_synchronous = "select count(*) = 1 from pg_stat_replication where sync_state = 'sync'"
    await eventually(lambda: connection.fetchval(is_synchronous), "a synchronous standby")
    await connection.close()
    yield Pair(primary, standby, home)
    for server, name in ((standby, "standby"), (primary, "primary")):
        server.release()
        stop_for_certain(home / name)


@pytest.fixture
async def fleet_of_two_hosts(pair: Pair, tmp_path: Path) -> AsyncIterator[Fleet]:
    database = Database(pair.url)
    await database.open()
    fleet = Fleet(database, environ_for(pair.url, tmp_path), tmp_path)
    yield fleet
    fleet.clear()
    await database.close()


async def test_nothing_acknowledged_is_lost_when_the_standby_takes_over(
    pair: Pair, fleet_of_two_hosts: Fleet
) -> None:
    fleet = fleet_of_two_hosts
    client, stopping = Client(fleet.database), asyncio.Event()
    processes = await fleet.start(2)
    await fleet.add(1_000, seconds=0.05, spread=timedelta(seconds=12))
    await fleet.add(200, seconds=0.05, spread=timedelta(seconds=12), group="shared", limit=10)
    await fleet.add(20, seconds=0.01, every=timedelta(seconds=1))
    adding = asyncio.ensure_future(client.add_until(stopping))
    await fleet.started_runs(300)

    pair.kill_primary()
    killed_at, before = time.monotonic(), len(client.acknowledged)
    await pair.promote()
    promoted_after = time.monotonic() - killed_at
    effects = len(fleet.lines())
    await eventually(lambda: len(client.acknowledged) > before, "a job added afterwards")
    added_after = time.monotonic() - killed_at
    await eventually(lambda: len(fleet.lines()) > effects + 50, "runs afterwards")
    ran_after = time.monotonic() - killed_at
    await eventually(lambda: len(client.acknowledged) > before + 100, "jobs added afterwards")
    stopping.set()
    await adding
    await eventually(lambda: has_done_all(fleet), "the end of what runs once", patience=60)
    # The nodes may have been declared dead while nobody could renew anything.
    fleet.gone |= {process.pid: await fleet.now() for process in processes}
    await fleet.stop()
    assert await fleet.breaches() == []
    async with fleet.database.connection() as connection:
        assert await client.missing(connection) == []
        assert await missing_runs(connection, processes) == []
    print(
        f"\nfailover: {before} jobs acknowledged before, {len(client.acknowledged) - before} after,"
        f" {len(client.refused)} refused, none lost; promoted {promoted_after:.1f} s after the"
        f" kill, jobs added again after {added_after:.1f} s, run again after {ran_after:.1f} s"
    )
    assert added_after <= promoted_after + 10


async def has_done_all(fleet: Fleet) -> bool:
    return not await fleet.value(
        "select exists(select from evenbeat.pulse join evenbeat.job using (id)"
        " where state <> 'c' and not job.timetable -> 'schedule' ? 'every')"
    )
