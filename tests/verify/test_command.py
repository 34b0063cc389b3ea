"""`evenbeat verify` as people call it, and a node at work as it finds it."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from evenbeat.app import Evenbeat
from evenbeat.config import Settings
from evenbeat.control.ops.verify import ALL_RULES
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.model import Definition, Policy
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Done, Failed, Outcome, Snoozed
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database.pool import Database
from tests.support import databases
from tests.support.databases import Clock
from tests.support.processes import EVENBEAT
from tests.support.waiting import eventually

WORLD = Path(__file__).with_name("world.sql").read_text()
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def evenbeat(environ: dict[str, str], tmp_path: Path) -> Command:
    def call(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [EVENBEAT, "verify", *arguments],
            env=environ | more,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return call


@pytest.fixture
async def world(database: Database) -> Database:
    async with database.connection() as connection:
        await connection.execute(WORLD)
    return database


def test_the_command_names_every_rule_and_what_it_looked_at(
    world: Database, evenbeat: Command
) -> None:
    ended = evenbeat()
    *rules, last = ended.stdout.splitlines()
    assert (ended.returncode, ended.stderr) == (0, "")
    assert rules == [f"ok      {rule.replace('_', ' ')}" for rule in ALL_RULES]
    assert last == "7 jobs and 14 runs looked at: nothing found."


async def test_the_command_shows_a_breach_and_ends_with_1(
    world: Database, evenbeat: Command
) -> None:
    async with world.connection() as connection:
        await connection.execute("delete from evenbeat.permit")
    ended = evenbeat()
    assert ended.returncode == 1
    assert "BROKEN  every lease in a group has its permit\n" in ended.stdout
    assert "job 3: runs in group 1 without a permit\n" in ended.stdout
    assert ended.stdout.endswith("7 jobs and 14 runs looked at: 1 breach found.\n")
    told = json.loads(evenbeat("-o", "json").stdout)
    assert (told["jobs"], told["runs"], told["breaches"]) == (7, 14, 1)
    assert [rule for rule, found in told["rules"].items() if found] == [
        "every_lease_in_a_group_has_its_permit"
    ]


async def test_a_database_without_a_schema_is_told_in_one_line(
    postgres: EmbeddedServer, evenbeat: Command
) -> None:
    name = "evenbeat_unverified"
    await databases.create(postgres.url("postgres"), name)
    ended = evenbeat(EVENBEAT_DATABASE_URL=postgres.url(name))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == ("evenbeat: the schema is not up to date: run `evenbeat db migrate`\n")


class EveryOutcome:
    """A handler with every sort of end."""

    kind = "moody"

    def check(self, payload: object) -> None:
        """Any payload will do."""

    async def run(self, context: RunContext) -> Outcome:
        await asyncio.sleep(0.01)
        match context.number % 4, context.attempt:
            case (0, _):
                return Snoozed(timedelta(seconds=1))
            case (1, 1):
                return Failed("not at the first try")
            case (2, _):
                raise ValueError("something else")
            case _:
                return Done()


async def test_a_node_at_work_leaves_nothing_to_find(
    settings: Settings, database: Database, clock: Clock
) -> None:
    stopping, joined = asyncio.Event(), asyncio.Event()
    async with Evenbeat(settings) as eb:
        eb.registry.add(EveryOutcome())
        node = asyncio.ensure_future(eb.run_node(stopping, joined.set))
        await joined.wait()
        for schedule in ("now", "every 1m", "every 7m", "cron */5 * * * *"):
            for group in (None, Group("few", max_running=2)):
                timetable = Timetable(parse_schedule(schedule))
                policy = Policy(max_attempts=2)
                await eb.jobs.add(Definition("moody", timetable, policy=policy, group=group))
        for _ in range(30):
            await clock.advance(minutes=4)
            await eventually(lambda: is_idle(database))
            assert [str(breach) for breach in (await eb.verify()).breaches] == []
        stopping.set()
        await node
        report = await eb.verify()
    assert report.breaches == ()
    assert report.scope.runs > 200


async def is_idle(database: Database) -> bool:
    async with database.connection() as connection:
        return not await connection.fetchval(
            "select exists(select from evenbeat.pulse where token is not null or is_parked"
            " or due_at <= evenbeat_clock.now())"
        )
