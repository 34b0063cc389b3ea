"""The schema's history, on databases of these tests' own."""

import asyncio
import os
import re
import subprocess
import sys
from dataclasses import replace

import asyncpg
import pytest

from evenbeat.core.errors import MigrationFailed, StoreUnavailable
from evenbeat.postgres import EmbeddedServer, find_program
from evenbeat.store.database import migrations
from evenbeat.store.database.migrations import Migration, known_migrations, known_steps
from tests.support import databases

FIRST = Migration(1, "first", "create table evenbeat.a (id int);", "drop table evenbeat.a;")
SECOND = Migration(2, "second", "create table evenbeat.b (id int);", "drop table evenbeat.b;")
BAD = Migration(2, "bad", "create table evenbeat.b (id int); select 1 / 0;", "select 1;")
# What is left of a schema that was taken back.
RECORDS = {"migration", "migration_pkey", "repeatable", "repeatable_pkey"}


@pytest.fixture
async def url(postgres: EmbeddedServer) -> str:
    """A database with nothing in it."""
    name = f"migrations_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    await databases.create(postgres.url("postgres"), name)
    return postgres.url(name)


def schema_of(url: str) -> str:
    """What pg_dump says of it, without the lines that differ from dump to dump."""
    dump = subprocess.run(
        [find_program("pg_dump", None), "--schema-only", "--no-owner", url],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return re.sub(r"^\\(un)?restrict .*$", "", dump, flags=re.MULTILINE)


async def tables(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    try:
        query = "select relname from pg_class where relnamespace = to_regnamespace('evenbeat')"
        return {row["relname"] for row in await connection.fetch(query)}
    finally:
        await connection.close()


async def test_up_down_and_up_again_leave_the_same_schema(url: str) -> None:
    steps, numbered = list(known_steps()), list(known_migrations())
    assert await migrations.migrate(url) == steps
    schema = schema_of(url)
    assert "CREATE TABLE evenbeat.pulse" in schema
    assert "CREATE VIEW metadata.scheduled_jobs" in schema
    assert await migrations.rollback(url, len(steps)) == numbered[::-1]
    assert "evenbeat.pulse" not in schema_of(url)
    assert await migrations.migrate(url) == steps
    assert schema_of(url) == schema


async def test_the_way_back_leaves_nothing_but_the_history_of_migrations(url: str) -> None:
    await migrations.migrate(url)
    await migrations.rollback(url, 1000)
    assert await tables(url) == RECORDS
    left = "CREATE (FUNCTION|VIEW|TRIGGER|DOMAIN|SEQUENCE|SCHEMA (?!evenbeat;)).*"
    assert re.findall(left, schema_of(url)) == []
    assert await migrations.rollback(url) == []


async def test_every_migration_has_a_number_of_its_own_without_gaps() -> None:
    numbers = [step.number for step in known_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_second_migration_finds_nothing_to_do(url: str) -> None:
    await migrations.migrate(url)
    assert await migrations.migrate(url) == []
    assert (await migrations.find_schema_status(url)).is_current


async def test_where_nothing_is_to_do_nobody_is_waited_for(url: str) -> None:
    await migrations.migrate(url, [FIRST])
    other = await asyncpg.connect(url)
    async with other.transaction():
        await other.execute(migrations.SQL["lock"].text("database"))
        assert await asyncio.wait_for(migrations.migrate(url, [FIRST]), 30) == []
    await other.close()


async def test_the_status_of_an_empty_database_is_told_without_changing_it(url: str) -> None:
    status = await migrations.find_schema_status(url)
    assert status.pending == known_steps()
    assert not status.is_current
    assert await tables(url) == set()


async def test_only_what_is_pending_is_applied(url: str) -> None:
    assert await migrations.migrate(url, [FIRST]) == [FIRST]
    assert (await migrations.find_schema_status(url, [FIRST, SECOND])).pending == (SECOND,)
    assert await migrations.migrate(url, [FIRST, SECOND]) == [SECOND]
    status = await migrations.find_schema_status(url, [FIRST, SECOND])
    assert [step.name for step in status.applied] == ["first", "second"]
    assert status.newest(1) == [SECOND]


async def test_a_failing_migration_changes_nothing_and_says_which_it_was(url: str) -> None:
    with pytest.raises(MigrationFailed, match=r"0002 bad.*nothing was changed.*zero"):
        await migrations.migrate(url, [FIRST, BAD])
    assert await tables(url) == {"a", *RECORDS}
    assert (await migrations.find_schema_status(url, [FIRST, BAD])).pending == (BAD,)


async def test_a_failing_first_migration_leaves_an_empty_database(url: str) -> None:
    with pytest.raises(MigrationFailed):
        await migrations.migrate(url, [replace(BAD, number=1)])
    assert await tables(url) == set()


async def test_a_file_that_was_changed_after_it_was_applied_is_noticed(url: str) -> None:
    await migrations.migrate(url, [FIRST])
    edited = replace(FIRST, up=FIRST.up + "-- edited")
    with pytest.raises(MigrationFailed, match=r"0001 \(first\) was changed"):
        await migrations.migrate(url, [edited, SECOND])
    assert "b" not in await tables(url)


async def test_a_database_of_a_newer_version_is_refused_with_both_numbers(url: str) -> None:
    await migrations.migrate(url, [FIRST, SECOND])
    assert (await migrations.find_schema_status(url, [FIRST])).is_newer
    with pytest.raises(MigrationFailed, match=r"0002 \(second\).*up to 0001: upgrade Evenbeat"):
        await migrations.migrate(url, [FIRST])


@pytest.mark.parametrize("count", [2, 5])
async def test_any_number_may_migrate_at_once_and_each_step_is_taken_once(
    url: str, count: int
) -> None:
    steps = [FIRST, SECOND]
    taken = await asyncio.gather(*(migrations.migrate(url, steps) for _ in range(count)))
    assert sorted(str(step) for each in taken for step in each) == ["0001 first", "0002 second"]


async def test_processes_may_migrate_at_once(url: str) -> None:
    program = (
        "import asyncio, sys; from evenbeat.store.database import migrations; "
        "print('applied', len(asyncio.run(migrations.migrate(sys.argv[1]))))"
    )
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, url, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    outputs = [(await each.communicate())[0].decode() for each in started]
    assert [each.returncode for each in started] == [0, 0]
    applied = [int(output.rpartition("applied ")[2]) for output in outputs]
    assert sum(applied) == len(known_steps())


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable, match="cannot connect"):
        await migrations.migrate("postgresql://nobody@127.0.0.1:1/nothing")


async def test_what_others_have_of_the_same_name_is_not_touched(url: str) -> None:
    """Those who come from another scheduler rename what they have, and take it along."""
    connection = await asyncpg.connect(url)
    await connection.execute("""
        create schema metadata;
        create table metadata.scheduled_jobs (name text, function_name text, schedule text);
        create table metadata.of_somebody_else ();
        insert into metadata.scheduled_jobs values ('nightly', 'work', '0 3 * * *');
        create function public.work() returns jsonb language sql return null::jsonb;
    """)
    with pytest.raises(MigrationFailed, match=r"already there: metadata\.scheduled_jobs.*Rename"):
        await migrations.migrate(url)
    await connection.execute("alter table metadata.scheduled_jobs rename to old_jobs")
    await migrations.migrate(url)
    await connection.execute("""
        insert into metadata.scheduled_jobs (name, function_name, schedule)
        select name, function_name, schedule from metadata.old_jobs
    """)
    await migrations.rollback(url, 1000)
    assert await connection.fetchval("select count(*) from metadata.old_jobs") == 1
    assert await connection.fetchval("select count(*) from metadata.of_somebody_else") == 0
    await connection.close()
