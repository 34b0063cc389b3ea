"""Repeatable files: applied again when they change, never backwards, and privileges stay."""

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from evenbeat.core.errors import MigrationFailed
from evenbeat.postgres import EmbeddedServer, find_program
from evenbeat.store.database import migrations
from evenbeat.store.database.migrations import Migration, Repeatable, Step, repeatable
from tests.support import databases

TABLE = Migration(1, "first", "create table evenbeat.a (id int);", "drop table evenbeat.a;")
READER = "repeatable_reader"


def view(number: int, version: int = 1, *, before: str = "") -> Repeatable:
    """A file whose view shows this number."""
    made = f"create or replace view evenbeat.v as select {number} as number, 'word' as word;"
    return repeatable("view", f"-- version: {version}\n{before}\n{made}")


def function(arguments: str, version: int = 1, *, before: str = "", after: str = "") -> Repeatable:
    made = (
        f"create or replace function evenbeat.f({arguments}) returns int"
        f" language sql return {version};"
    )
    return repeatable("function", f"-- version: {version}\n{before}\n{made}\n{after}")


@pytest.fixture
async def url(postgres: EmbeddedServer) -> str:
    """A database with nothing in it, on a server with a role of these tests."""
    name = f"repeatables_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    await databases.create(postgres.url("postgres"), name)
    return postgres.url(name)


@pytest.fixture
async def owner(url: str) -> AsyncIterator[Any]:
    connection: Any = await asyncpg.connect(url)
    try:
        await connection.execute(f"create role {READER}")
    except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
        # Roles are the server's, and another worker was first.
        assert await connection.fetchval("select true from pg_roles where rolname = $1", READER)
    yield connection
    await connection.close()


async def applied(url: str, *steps: Step) -> list[str]:
    return [str(step) for step in await migrations.migrate(url, steps)]


async def may(owner: Any, privilege: str, what: str) -> bool:
    sort = "function" if "(" in what else "table"
    question = f"select has_{sort}_privilege($1, $2, $3)"
    return bool(await owner.fetchval(question, READER, what, privilege))


async def test_they_come_after_the_numbered_migrations_and_once(url: str) -> None:
    steps = [view(1), TABLE]
    assert await applied(url, *steps) == ["0001 first", "repeatable view, version 1"]
    assert await applied(url, *steps) == []
    assert (await migrations.find_schema_status(url, steps)).is_current


async def test_a_file_with_a_higher_version_is_applied_again(url: str, owner: Any) -> None:
    await applied(url, TABLE, view(1))
    newer = [TABLE, view(2, version=2)]
    assert (await migrations.find_schema_status(url, newer)).pending == (newer[1],)
    assert await applied(url, *newer) == ["repeatable view, version 2"]
    assert await owner.fetchval("select number from evenbeat.v") == 2


async def test_a_file_under_development_is_applied_again_at_the_same_version(
    url: str, owner: Any
) -> None:
    await applied(url, TABLE, view(1))
    assert await applied(url, TABLE, view(2)) == ["repeatable view, version 1"]
    assert await owner.fetchval("select number from evenbeat.v") == 2


async def test_an_older_release_leaves_the_text_of_a_newer_one_alone(url: str, owner: Any) -> None:
    await applied(url, TABLE, view(3, version=3), function("int"))
    older = [TABLE, view(2, version=2)]
    assert await applied(url, *older) == []
    assert (await migrations.find_schema_status(url, older)).is_current
    assert await owner.fetchval("select number from evenbeat.v") == 3
    assert await applied(url, TABLE, view(3, version=3)) == []


async def test_a_file_that_fails_leaves_all_files_as_they_were(url: str, owner: Any) -> None:
    await applied(url, TABLE, view(1))
    bad = repeatable("bad", "-- version: 1\nselect 1 / 0;")
    told = r"repeatable bad, version 1 failed, nothing was changed.*zero"
    with pytest.raises(MigrationFailed, match=told):
        await applied(url, TABLE, view(2, version=2), bad)
    assert await owner.fetchval("select number from evenbeat.v") == 1
    assert await owner.fetch("select name, version from evenbeat.repeatable") == [("view", 1)]


@pytest.mark.parametrize("count", [2, 5])
async def test_any_number_may_migrate_at_once_and_each_file_is_applied_once(
    url: str, count: int
) -> None:
    # Not `or replace`: a second application would fail.
    once = repeatable("once", "-- version: 1\ncreate view evenbeat.v as select 1 as number;")
    taken = await asyncio.gather(*(applied(url, TABLE, once) for _ in range(count)))
    told = sorted(each for some in taken for each in some)
    assert told == ["0001 first", "repeatable once, version 1"]


async def test_a_file_says_its_version_first() -> None:
    with pytest.raises(ValueError, match="file nameless must begin with"):
        repeatable("nameless", "create view evenbeat.v as select 1;")


class TestPrivileges:
    """An object that was there before has afterwards exactly the privileges it had."""

    @pytest.mark.parametrize("before", ["", "drop view evenbeat.v;"], ids=["replaced", "dropped"])
    async def test_what_people_granted_on_a_view_is_kept(
        self, url: str, owner: Any, before: str
    ) -> None:
        await applied(url, TABLE, view(1))
        await owner.execute(f"""
            grant select on evenbeat.v to {READER} with grant option;
            grant update (word) on evenbeat.v to {READER};
        """)
        await applied(url, TABLE, view(2, version=2, before=before))
        assert await may(owner, "select with grant option", "evenbeat.v")
        assert not await may(owner, "update", "evenbeat.v")
        told = "select has_column_privilege($1, 'evenbeat.v', $2, 'update')"
        assert await owner.fetchval(told, READER, "word")
        assert not await owner.fetchval(told, READER, "number")

    @pytest.mark.parametrize("arguments", ["int", "int, text"], ids=["same", "other arguments"])
    async def test_what_people_granted_and_took_of_a_function_is_kept(
        self, url: str, owner: Any, arguments: str
    ) -> None:
        await applied(url, TABLE, function("int"))
        await owner.execute(f"""
            revoke execute on function evenbeat.f from public;
            grant execute on function evenbeat.f to {READER};
        """)
        dropped = "drop function evenbeat.f(int);"
        await applied(url, TABLE, function(arguments, version=2, before=dropped))
        acl = await owner.fetchval("select proacl::text from pg_proc where proname = 'f'")
        assert f"{READER}=X" in acl
        assert "{=X" not in acl
        assert ",=X" not in acl

    async def test_what_a_person_took_away_is_not_given_again_by_the_file(
        self, url: str, owner: Any
    ) -> None:
        grants = f"grant execute on function evenbeat.f(int) to {READER};"
        revokes = "revoke execute on function evenbeat.f(int) from public;"
        await applied(url, TABLE, function("int", after=revokes + grants))
        assert await may(owner, "execute", "evenbeat.f(int)")
        await owner.execute(f"revoke execute on function evenbeat.f from {READER}")
        await applied(url, TABLE, function("int", version=2, after=revokes + grants))
        assert not await may(owner, "execute", "evenbeat.f(int)")

    async def test_a_file_that_fails_takes_no_privilege_away(self, url: str, owner: Any) -> None:
        await applied(url, TABLE, view(1))
        await owner.execute(f"grant select on evenbeat.v to {READER}")
        bad = repeatable("bad", "-- version: 1\nselect 1 / 0;")
        with pytest.raises(MigrationFailed):
            await applied(url, TABLE, view(2, version=2, before="drop view evenbeat.v;"), bad)
        assert await may(owner, "select", "evenbeat.v")


def dump(url: str) -> str:
    """The whole schema with its privileges, without the lines that differ from dump to dump."""
    told = subprocess.run(
        [find_program("pg_dump", None), "--schema-only", url],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return re.sub(r"^\\(un)?restrict .*$", "", told, flags=re.MULTILINE)


class TestOurs:
    """The files of this version."""

    @pytest.fixture
    def touched(self) -> Sequence[Step]:
        """All files, each with another text that does the same."""
        return [
            repeatable(step.name, f"{step.text}\n-- touched")
            if isinstance(step, Repeatable)
            else step
            for step in migrations.known_steps()
        ]

    async def test_all_of_them_can_be_applied_again_and_change_nothing(
        self, url: str, owner: Any, touched: Sequence[Step]
    ) -> None:
        await migrations.migrate(url)
        await owner.execute(f"""
            grant select, insert on metadata.scheduled_jobs to {READER};
            grant execute on function public.trigger_scheduled_job to {READER};
            grant execute on all functions in schema evenbeat to {READER};
            revoke execute on function evenbeat.enqueue from public;
        """)
        before = dump(url)
        assert READER in before
        files = [step for step in touched if isinstance(step, Repeatable)]
        assert await migrations.migrate(url, touched) == files
        assert dump(url) == before

    async def test_an_object_that_was_dropped_is_made_again_once_its_record_is_gone(
        self, url: str, owner: Any
    ) -> None:
        await migrations.migrate(url)
        before = dump(url)
        await owner.execute("drop function evenbeat_call.call_function")
        assert await migrations.migrate(url) == []
        await owner.execute("delete from evenbeat.repeatable where name = 'call_by_hand'")
        [again] = await migrations.migrate(url)
        assert isinstance(again, Repeatable)
        assert again.name == "call_by_hand"
        assert dump(url) == before

    async def test_their_names_are_unique(self) -> None:
        names = [file.name for file in migrations.known_repeatables()]
        assert len(set(names)) == len(names) > 5

    async def test_they_replace_what_they_make(self) -> None:
        """A plain `create` would fail where the object is there already."""
        for file in migrations.known_repeatables():
            plain = re.findall(r"^create (?!or replace )(\w+ \S+)", file.text, re.MULTILINE)
            assert plain == [], file.name
