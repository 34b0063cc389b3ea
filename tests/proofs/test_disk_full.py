"""The disk of PostgreSQL is full: refused with a clear word, and nothing is half done."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from evenbeat.core.errors import StoreUnavailable
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import Database
from tests.postgres.support import stop_for_certain
from tests.proofs.fleet import Fleet, environ_for
from tests.support.processes import Api, Process
from tests.support.serving import SECRET, assert_problem
from tests.support.waiting import eventually

pytestmark = pytest.mark.proof
SMALL = {"max_wal_size": "48MB", "min_wal_size": "32MB", "checkpoint_timeout": "30s"}
FULL = ("disk is full", "does not answer", "cannot connect")


@dataclass
class Disk:
    """A small disk of its own, and what takes up its room."""

    place: Path

    @property
    def ballast(self) -> Path:
        return self.place / "ballast"

    def fill(self) -> None:
        with self.ballast.open("ab", buffering=0) as file:
            for piece in (1 << 20, 1 << 12):
                try:
                    while True:
                        file.write(bytes(piece))
                except OSError:
                    continue

    def clear(self) -> None:
        self.ballast.unlink(missing_ok=True)


@pytest.fixture
def small_disk(home: Path) -> Iterator[Disk]:
    place = home / "disk"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=220m,mode=0755", "tmpfs", place]
    if os.geteuid() != 0 or subprocess.run(mounting, check=False).returncode != 0:
        pytest.skip("needs root, to make a small disk with mount -t tmpfs")
    yield Disk(place)
    stop_for_certain(place / "postgres")
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
async def on_small_disk(
    small_disk: Disk, home: Path
) -> AsyncIterator[tuple[Fleet, EmbeddedServer]]:
    server = EmbeddedServer(small_disk.place / "postgres", settings=SMALL)
    server.acquire()
    await migrations.migrate(server.url())
    database = Database(server.url())
    await database.open()
    fleet = Fleet(database, environ_for(server.url(), home), home)
    yield fleet, server
    fleet.clear()
    await database.close()
    server.release()


async def test_a_full_disk_is_told_and_survived(
    on_small_disk: tuple[Fleet, EmbeddedServer], small_disk: Disk, client: Callable[..., Api]
) -> None:
    (fleet, server), disk = on_small_disk, small_disk
    supervising = asyncio.ensure_future(server.supervise())
    processes = await fleet.start(2)
    more = {"EVENBEAT_PORT": "0", "EVENBEAT_JWT_SECRET": SECRET}
    face = Process("server", environ={**fleet.environ, **more}, cwd=fleet.path)
    fleet.started.append(face)
    api = client(await face.ready())
    await fleet.add(500, seconds=0.02, spread=timedelta(seconds=15))
    await fleet.add(20, seconds=0.01, every=timedelta(seconds=1))
    await fleet.started_runs(50)

    disk.fill()
    acknowledged: list[object] = []

    async def is_refused() -> str:
        answer = await api.post("/api/v1/jobs", {"kind": "echo", "payload": "x" * 500_000})
        if answer.status_code == 201:
            acknowledged.append(answer.json()["id"])
            return ""
        return str(assert_problem(answer, 503)["detail"])

    refusal = await eventually(is_refused, "a refusal")
    assert any(words in refusal for words in FULL), refusal
    await asyncio.sleep(5)
    assert (await api.get("/livez")).status_code == 200

    disk.clear()
    cleared_at = time.monotonic()

    async def is_accepted() -> bool:
        return (await api.post("/api/v1/jobs", {"kind": "effect"})).status_code == 201

    await eventually(is_accepted, "that jobs can be added again", patience=60)
    resumed_after = time.monotonic() - cleared_at
    await eventually(lambda: has_done_all(fleet), "the end of the work", patience=60)
    fleet.gone |= {process.pid: await fleet.now() for process in processes}
    await fleet.stop()
    supervising.cancel()
    assert await fleet.breaches() == []
    for job in acknowledged:
        assert await fleet.value("select count(*) from evenbeat.job where uid::text = $1", job) == 1
    print(f"\ndisk full: {refusal!r}; jobs added {resumed_after:.1f} s after there was room again")


async def has_done_all(fleet: Fleet) -> bool:
    try:
        return not await fleet.value(
            "select exists(select from evenbeat.pulse join evenbeat.job using (id)"
            " where state <> 'c' and kind = 'effect'"
            " and not job.timetable -> 'schedule' ? 'every')"
        )
    except (StoreUnavailable, asyncpg.PostgresError):
        return False
