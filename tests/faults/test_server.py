"""PostgreSQL is restarted, killed, or throws everybody out, while there is work under way."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta

import asyncpg
import pytest

from evenbeat.postgres import EmbeddedServer
from tests.proofs.fleet import Fleet
from tests.support.acknowledged import Client, missing_runs
from tests.support.waiting import eventually

THROW_OUT = """
select pg_terminate_backend(pid) from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid()
"""
Fault = Callable[[EmbeddedServer], Awaitable[None]]


def stopped_by(number: signal.Signals) -> Fault:
    async def stop(server: EmbeddedServer) -> None:
        pid = server.pid
        assert pid is not None
        os.kill(pid, number)
        await eventually(lambda: server.pid is None, "the end of the server")
        await asyncio.to_thread(server.ensure_running)

    return stop


async def throw_everybody_out(server: EmbeddedServer) -> None:
    for _ in range(10):
        connection = await asyncpg.connect(server.url())
        await connection.execute(THROW_OUT)
        await connection.close()
        await asyncio.sleep(0.1)


FAULTS = {
    "restarted": stopped_by(signal.SIGINT),
    "restarted at once": stopped_by(signal.SIGQUIT),
    "killed": stopped_by(signal.SIGKILL),
    "throws everybody out": throw_everybody_out,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_nothing_acknowledged_is_lost_when_the_server_is(
    own_fleet: Fleet, own_server: EmbeddedServer, fault: Fault
) -> None:
    fleet, client, stopping = own_fleet, Client(own_fleet.database), asyncio.Event()
    processes = await fleet.start()
    await fleet.add(100, seconds=0.05, spread=timedelta(seconds=2))
    await fleet.add(50, seconds=0.05, spread=timedelta(seconds=2), group="shared", limit=5)
    adding = asyncio.ensure_future(client.add_until(stopping))
    await fleet.started_runs(20)
    await fault(own_server)
    before = len(client.acknowledged)
    await eventually(lambda: len(client.acknowledged) >= before + 20, "jobs added afterwards")
    stopping.set()
    await adding
    await fleet.drained()
    # A node may have been declared dead while nobody could renew anything: its handlers ran on.
    fleet.gone |= {process.pid: await fleet.now() for process in processes}
    await fleet.stop()
    assert await fleet.breaches() == []
    async with fleet.database.connection() as connection:
        assert await client.missing(connection) == []
        assert await missing_runs(connection, processes) == []
    assert await fleet.value("select count(*) from evenbeat.pulse where state <> 'c'") == 0
