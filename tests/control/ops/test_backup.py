"""Backups: everything comes back as it was, or nothing does."""

import asyncio
import json
import os
import stat
import zipfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from evenbeat.app import Evenbeat
from evenbeat.config import Settings, load
from evenbeat.control.ops import backup
from evenbeat.control.ops.verify import verify
from evenbeat.core.errors import Conflict, InvalidInput, MigrationFailed, NotFound
from evenbeat.core.ops.access import Role
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import clock as clocks
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import backup as store_backup
from evenbeat.store.ops import nodes
from tests.conftest import START
from tests.support import databases
from tests.support.waiting import eventually

WORLD = (Path(__file__).parents[2] / "verify" / "world.sql").read_text()
# Texts that a careless format would change: tabs, newlines, backslashes, NULL as a word.
HARD = "a\tb\nc\\n\\N\r\n\"quoted\", 'too' \N{SNOWMAN} NULL"
REST = """
    insert into evenbeat.audit (at, actor, action, before, after)
    values ('2030-01-01 12:00Z', $$ACTOR$$, 'add', '{}', '{}');
    update evenbeat.run set error = $$ERROR$$, result = '[1, null, {"a": "\\u2603"}]' where id = 5;
    insert into evenbeat.template (name, job, parameters, created_at, updated_at)
    values ('t', '{}', '[]', '2030-01-01 12:00Z', '2030-01-01 12:00Z');
    insert into evenbeat.idempotency (caller, key, fingerprint, request_id, created_at)
    values ('c', 'k', decode(repeat('ff', 32), 'hex'), 'r', '2030-01-01 12:00Z');
    select setval('evenbeat.run_id', 17);
    select setval(pg_get_serial_sequence('evenbeat.' || name, 'id'), 100)
    from unnest('{lane,node,job,job_group}'::text[]) as name;
"""


async def rows_of(url: str) -> dict[str, list[str]]:
    """Every row of every table, without what a restore changes on purpose."""
    connection = await asyncpg.connect(url)
    try:
        names = await connection.fetch(
            "select relname from pg_class where relnamespace = 'evenbeat'::regnamespace"
            " and relkind = 'r' and relname not in ('migration', 'repeatable', 'sql_login')"
        )
        return {
            name: [
                json.dumps({**json.loads(row[0]), "dead_at": None}, sort_keys=True)
                for row in await connection.fetch(
                    f"select to_jsonb(t)::text from evenbeat.{name} as t order by 1"
                )
            ]
            for (name,) in names
        }
    finally:
        await connection.close()


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def value_of(url: str, question: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


@pytest.fixture
async def full(database: Database, settings: Settings) -> Database:
    """A database with rows in every table, and a run that has not ended."""
    async with database.connection() as connection:
        await connection.execute(WORLD)
        await connection.execute(REST.replace("ACTOR", "me").replace("ERROR", HARD))
    async with Evenbeat(settings) as eb:
        await eb.tokens.issue(name="x", role=Role.VIEWER, lifetime=timedelta(days=1), issued_by="y")
    return database


@pytest.fixture
async def elsewhere(postgres: EmbeddedServer) -> AsyncIterator[str]:
    """Another empty database, with the clock of tests."""
    name = f"evenbeat_elsewhere_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    await databases.create(postgres.url("postgres"), name)
    database = Database(postgres.url(name), clock="set")
    await database.open()
    await clocks.install_test_clock(database)
    await clocks.set_test_clock(database, START)
    yield database.url
    await database.close()


async def test_everything_comes_back_in_a_new_place(
    full: Database, elsewhere: str, tmp_path: Path
) -> None:
    before = await rows_of(full.url)
    for name in ("job", "pulse", "run", "dead_letter", "audit", "template", "access_token"):
        assert before[name], name
    made = await backup.write_backup(full.url, tmp_path / "all.zip")
    assert made.rows == sum(map(len, before.values()))
    await backup.restore_backup(elsewhere, tmp_path / "all.zip")
    assert await rows_of(elsewhere) == before
    assert await value_of(elsewhere, "select nextval('evenbeat.run_id')") == 18
    assert (await migrations.find_schema_status(elsewhere)).is_current
    # Generated columns are not in the file: PostgreSQL computes them again.
    due = "select count(due_at) from evenbeat.pulse"
    assert await value_of(elsewhere, due) == await value_of(full.url, due) > 0
    copy = Database(elsewhere, clock="set")
    await copy.open()
    assert [str(breach) for breach in await verify(copy)] == []
    assert await nodes.count_live_nodes(copy) == 0
    await copy.close()


async def test_a_job_of_plain_sql_comes_back_though_its_function_does_not(
    full: Database, elsewhere: str, tmp_path: Path
) -> None:
    async with full.connection() as connection:
        await connection.execute(
            """
            create or replace function public.nightly() returns jsonb
            language sql as $$select '{}'::jsonb$$;
            insert into metadata.scheduled_jobs (name, function_name, schedule)
            values ('nightly', 'nightly', '0 3 * * *');
            """
        )
    shown = "select to_jsonb(shown)::text from metadata.scheduled_jobs as shown"
    before = await value_of(full.url, shown)
    assert before is not None
    await backup.write_backup(full.url, tmp_path / "all.zip")
    await backup.restore_backup(elsewhere, tmp_path / "all.zip")
    assert await value_of(elsewhere, shown) == before
    # A change of the restored job is checked as everywhere.
    with pytest.raises(asyncpg.PostgresError, match="nightly"):
        await value_of(elsewhere, "update metadata.scheduled_jobs set function_name = 'nightly_2'")


async def test_what_ran_is_settled_by_the_first_node_of_the_new_place(
    full: Database, elsewhere: str, settings: Settings, tmp_path: Path
) -> None:
    await backup.write_backup(full.url, tmp_path / "all.zip")
    await backup.restore_backup(elsewhere, tmp_path / "all.zip")
    there = load(environ={}, cwd=tmp_path, **settings.model_dump() | {"database_url": elsewhere})
    stopping = asyncio.Event()

    async def is_settled() -> bool:
        return await value_of(elsewhere, "select count(token) = 0 from evenbeat.pulse")

    async with Evenbeat(there) as eb, asyncio.TaskGroup() as working:
        working.create_task(eb.run_node(stopping))
        try:
            await eventually(is_settled)
        finally:
            stopping.set()
    copy = Database(elsewhere, clock="set")
    await copy.open()
    assert [str(breach) for breach in await verify(copy)] == []
    await copy.close()
    lost = "select error_class from evenbeat.run where job_id = 3"
    assert await value_of(elsewhere, lost) == "lost"


ADDED = """
    with made as (
        insert into evenbeat.job (
            uid, kind, payload, timetable, policy, labels, created_at, updated_at
        )
        values (
            gen_random_uuid(), 'work', '{}', '{"schedule": {"once": "2030-01-01T12:00:00Z"}}', '{}',
            '{}', '2030-01-01', '2030-01-01'
        )
        returning id
    )
    insert into evenbeat.pulse (id, lane_id, state, state_at, next_beat_at)
    select id, 1, 'p', '2030-01-01', '2030-01-01 12:00Z' from made
"""


async def test_a_backup_is_one_snapshot_while_other_sessions_write(
    full: Database, tmp_path: Path
) -> None:
    """A job that is added while tables are read is in none of them."""
    added: list[str] = []

    async def sink(table: str, data: bytes) -> None:
        if not added:
            added.append(table)
            await value_of(full.url, ADDED)

    contents = await store_backup.dump_tables(full.url, sink)
    counts = {table.name: table.rows for table in contents.tables}
    assert added < ["job"]
    assert counts["job"] == counts["pulse"] == 7
    assert await value_of(full.url, "select count(*) from evenbeat.job") == 8


async def test_a_database_in_use_is_left_alone(
    full: Database, elsewhere: str, tmp_path: Path
) -> None:
    await backup.write_backup(full.url, tmp_path / "all.zip")
    await backup.restore_backup(elsewhere, tmp_path / "all.zip")
    with pytest.raises(Conflict, match=r"there are jobs, runs, .* in this database"):
        await backup.restore_backup(elsewhere, tmp_path / "all.zip")
    before = await rows_of(elsewhere)
    await value_of(elsewhere, "delete from evenbeat.run")
    await value_of(elsewhere, "update evenbeat.job set name = 'changed' where id = 1")
    await backup.restore_backup(elsewhere, tmp_path / "all.zip", replaces=True)
    assert await rows_of(elsewhere) == before
    await value_of(
        elsewhere,
        "insert into evenbeat.node (name, kinds, labels, joined_at, alive_until)"
        " values ('me', '{}', '{}', now(), now() + interval '1 hour')",
    )
    with pytest.raises(Conflict, match="1 nodes are alive on this database"):
        await backup.restore_backup(elsewhere, tmp_path / "all.zip", replaces=True)


@pytest.mark.parametrize("table", ["template", "job_group", "audit", "access_token"])
async def test_a_database_without_jobs_is_in_use_by_what_else_people_made(
    table: str, full: Database, elsewhere: str, tmp_path: Path
) -> None:
    await backup.write_backup(full.url, tmp_path / "all.zip")
    await backup.restore_backup(elsewhere, tmp_path / "all.zip")
    others = sorted({*await rows_of(elsewhere)} - {table})
    connection = await asyncpg.connect(elsewhere)
    await connection.execute("set session_replication_role = replica")
    for other in others:
        await connection.execute(f"delete from evenbeat.{other}")
    await connection.close()
    with pytest.raises(Conflict, match="in this database"):
        await backup.restore_backup(elsewhere, tmp_path / "all.zip")
    await value_of(elsewhere, f"delete from evenbeat.{table}")
    await backup.restore_backup(elsewhere, tmp_path / "all.zip")


async def test_a_backup_that_fails_halfway_changes_nothing(
    full: Database, elsewhere: str, tmp_path: Path
) -> None:
    good, bad = tmp_path / "all.zip", tmp_path / "bad.zip"
    await backup.write_backup(full.url, good)
    await backup.restore_backup(elsewhere, good)
    before = await rows_of(elsewhere)
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            # The last table has a row too few.
            target.writestr(name, data.split(b"\n", 1)[1] if name == "run_log.copy" else data)
    with pytest.raises(InvalidInput, match="has 0 rows of table run_log, and not 1"):
        await backup.restore_backup(elsewhere, bad, replaces=True)
    assert await rows_of(elsewhere) == before


async def test_a_damaged_file_is_refused(full: Database, elsewhere: str, tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    await backup.write_backup(full.url, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput, match="is not a whole backup"):
        await backup.restore_backup(elsewhere, path)
    with zipfile.ZipFile(path, "w") as other:
        other.writestr("README", "hello")
    with pytest.raises(InvalidInput, match="is not a whole backup"):
        await backup.restore_backup(elsewhere, path)
    with pytest.raises(InvalidInput, match="there is no such file"):
        await backup.restore_backup(elsewhere, tmp_path / "nowhere.zip")


@pytest.mark.parametrize(
    "manifest", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 1, "taken_at": "later"}']
)
async def test_a_bad_manifest_is_refused(manifest: str, tmp_path: Path) -> None:
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", manifest)
    with pytest.raises(InvalidInput, match="is not a whole backup: its manifest"):
        await backup.restore_backup("postgresql://nowhere", path)


async def test_a_damaged_or_missing_member_is_refused(
    full: Database, elsewhere: str, tmp_path: Path
) -> None:
    good, bad = tmp_path / "all.zip", tmp_path / "bad.zip"
    await backup.write_backup(full.url, good)
    data = bytearray(good.read_bytes())
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w") as target:
        begins_at = source.getinfo("job.copy").header_offset
        for name in source.namelist():
            if name != "job.copy":
                target.writestr(name, source.read(name))
    with pytest.raises(InvalidInput, match=r"is not a whole backup: .*job\.copy"):
        await backup.restore_backup(elsewhere, bad)
    sizes = (int.from_bytes(data[begins_at + at : begins_at + at + 2], "little") for at in (26, 28))
    # The first bits of compressed data name its method; there is no method 3.
    data[begins_at + 30 + sum(sizes)] |= 0b110
    bad.write_bytes(data)
    with pytest.raises(InvalidInput, match=r"is not a whole backup: .*invalid block type"):
        await backup.restore_backup(elsewhere, bad)


async def test_a_backup_of_a_newer_version_is_refused(
    full: Database, elsewhere: str, tmp_path: Path
) -> None:
    path = tmp_path / "all.zip"
    made = await backup.write_backup(full.url, path)
    future = backup.manifest_of(made.contents, made.taken_at)
    future["taken_at"] = made.taken_at.isoformat()
    future["migrations"].append({"number": 9999, "name": "later", "checksum": "x"})
    with zipfile.ZipFile(tmp_path / "future.zip", "w") as archive:
        archive.writestr("manifest.json", json.dumps(future))
    with pytest.raises(MigrationFailed, match=r"not for this version .* 9999"):
        await backup.restore_backup(elsewhere, tmp_path / "future.zip")


async def test_a_backup_of_an_older_schema_is_brought_up_to_date(
    elsewhere: str, tmp_path: Path
) -> None:
    older = migrations.known_migrations()[:1]
    await migrations.migrate(elsewhere, older)
    assert not (await migrations.find_schema_status(elsewhere)).is_current
    made = await backup.write_backup(elsewhere, tmp_path / "old.zip")
    assert len(made.contents.migrations) == 1
    await backup.restore_backup(elsewhere, tmp_path / "old.zip")
    assert (await migrations.find_schema_status(elsewhere)).is_current


async def test_the_file_is_private_complete_and_never_overwritten(
    full: Database, elsewhere: str, tmp_path: Path
) -> None:
    path = tmp_path / "all.zip"
    await backup.write_backup(full.url, path)
    assert mode_of(path) == 0o600
    with pytest.raises(InvalidInput, match="is there already"):
        await backup.write_backup(full.url, path)
    with pytest.raises(NotFound, match="nothing to back up"):
        await backup.write_backup(elsewhere, tmp_path / "none.zip")
    with pytest.raises(InvalidInput, match="cannot be written: No such file"):
        await backup.write_backup(full.url, tmp_path / "no" / "such.zip")
    assert names_in(tmp_path) == ["all.zip"]
