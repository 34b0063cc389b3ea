"""Behind pgbouncer in transaction mode: found out by looking, and everything works but the bell."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from evenbeat.config import Settings
from evenbeat.control.ops.verify import verify
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import RunState, State
from evenbeat.core.runs.outcome import Done, Failed
from evenbeat.observe import log
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import SESSION_SETTINGS, Database
from evenbeat.store.database.route import Route
from tests.engine.node_runner import Does, Gate, NodeRunner
from tests.postgres.support import free_port
from tests.support import databases
from tests.support.databases import Clock
from tests.support.network import Network, network
from tests.support.poolers import Pooler, pooler

pytestmark = pytest.mark.usefixtures("rules")
# A pooler that is told to take our settings, and to do nothing with them.
IGNORES = f"ignore_startup_parameters = {', '.join(SESSION_SETTINGS)}"


@pytest.fixture
async def bouncer(wire: Network, tmp_path: Path) -> AsyncIterator[Pooler]:
    async with pooler(wire.url, tmp_path, free_port()) as bouncer:
        yield bouncer


@pytest.fixture
async def pooled(bouncer: Pooler) -> AsyncIterator[Database]:
    database = Database(bouncer.url, clock="set", pool_size=5)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def pooled_node_runner(pooled: Database, settings: Settings) -> NodeRunner:
    return NodeRunner(pooled, settings)


async def test_a_pooler_is_found_out_whether_or_not_it_takes_our_settings(
    wire: Network, bouncer: Pooler, tmp_path: Path
) -> None:
    direct, plain = Route(wire.url), Route(bouncer.url)
    async with pooler(wire.url, tmp_path, free_port(), IGNORES) as meek:
        quiet = Route(meek.url)
        for route in (direct, plain, quiet):
            assert route.is_pooled is None
            await (await route.connect(SESSION_SETTINGS)).close()
    assert [route.is_pooled for route in (direct, plain, quiet)] == [False, True, True]


async def test_what_is_said_of_a_pooler_is_not_found_out(wire: Network) -> None:
    route = Route(wire.url, "on")
    connection = await route.connect(SESSION_SETTINGS)
    assert (
        await connection.fetchval("show application_name") != SESSION_SETTINGS["application_name"]
    )
    await connection.close()


async def test_our_settings_hold_in_every_transaction_and_stay_in_none(pooled: Database) -> None:
    show = "select current_setting('statement_timeout'), current_setting('timezone')"
    async with pooled.transaction() as session:
        [inside] = await session._runner.fetch(show)
    async with pooled.connection() as connection:
        outside = await connection.fetchval("select current_setting('statement_timeout')")
    assert tuple(inside) == (SESSION_SETTINGS["statement_timeout"], "UTC")
    assert outside == "0"


async def test_the_life_of_jobs_behind_a_pooler(
    pooled_node_runner: NodeRunner, clock: Clock
) -> None:
    node_runner, gate, tries = pooled_node_runner, Gate(), []

    def flaky(context: object) -> Done | Failed:
        tries.append(context)
        return Failed("not yet") if len(tries) == 1 else Done()

    with capture_logs() as lines:
        async with (
            node_runner.node(Does(Done()), Does(gate, "gated"), Does(flaky, "flaky")),
            node_runner.node(Does(Done())),
        ):
            done = [await node_runner.add() for _ in range(20)]
            few = Group("few", max_running=2)
            grouped = [await node_runner.add(group=few) for _ in range(10)]
            again = await node_runner.add(kind="flaky", policy={"max_attempts": 2})
            unwanted = await node_runner.add(kind="gated")
            for job in (*done, *grouped):
                assert (await node_runner.closed(job)).state is RunState.COMPLETED
            await gate.reached.wait()
            await node_runner.cancel(unwanted)
            assert (await node_runner.closed(unwanted)).state is RunState.CANCELLED
            assert (await node_runner.closed(again)).state is RunState.FAILED
            await clock.advance(hours=1)
            assert (await node_runner.closed(again, 2)).state is RunState.COMPLETED
    assert (await node_runner.find(unwanted)).pulse.state is State.CANCELLED
    assert [line["event"] for line in lines].count(log.POLLING) == 2
    assert [str(breach) for breach in await verify(node_runner.database)] == []


async def test_the_runs_of_a_dead_node_are_taken_over_behind_a_pooler(
    pooled_node_runner: NodeRunner,
) -> None:
    node_runner, gate = pooled_node_runner, Gate()
    async with node_runner.node(Does(gate), drain_timeout=timedelta(0)):
        job = await node_runner.add()
        await gate.reached.wait()
        await node_runner.fetch("update evenbeat.node set alive_until = joined_at")
        async with node_runner.node(Does(Done(result="taken over"))):
            assert (await node_runner.closed(job, 2)).result == "taken over"


async def test_migrations_go_through_a_pooler(own_server: EmbeddedServer, tmp_path: Path) -> None:
    own_server.ensure_running()
    await databases.create(own_server.url("postgres"), "pooled")
    async with (
        network(own_server.url("pooled")) as wire,
        pooler(wire.url, tmp_path, free_port()) as bouncer,
    ):
        assert await migrations.migrate(bouncer.url) == list(migrations.known_migrations())
        assert (await migrations.find_schema_status(bouncer.url)).is_current
        assert await migrations.rollback(bouncer.url) == [migrations.known_migrations()[-1]]
