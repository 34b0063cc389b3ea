"""By which login functions run: the one that is made for them, a given one, or the engine's."""

import contextlib
import json
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr

from evenbeat.config import Settings
from evenbeat.core.errors import NotPermitted, StoreUnavailable
from evenbeat.core.jobs.model import RunState
from evenbeat.handlers.sql_function import SqlFunction
from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import Database
from evenbeat.store.runs.sql_login import SQL, SqlLogin, url_for_role
from tests.sql.sql_schema import ONCE, SqlSchema
from tests.support import databases

PASSWORD = "a password of these tests"
WHO = "return to_jsonb(current_user);"
FACE = "public.trigger_scheduled_job(varchar)"
TRIGGER = "select public.trigger_scheduled_job('job')"
# What an administrator does, on a server that has had the role already.
PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
[RECIPE] = re.findall(r"```\ncreate role evenbeat_sql;\n(.*?)```", PAGE, re.DOTALL)


@dataclass
class House:
    """A database that is rented: its owner may make no roles."""

    sql_schema: SqlSchema
    admin_url: str
    owner: str
    tenant: str

    async def register(self, body: str) -> None:
        """A job of the SQL face."""
        await self.sql_schema.function(body)
        await self.sql_schema.fetch(
            "insert into metadata.scheduled_jobs (name, function_name, schedule)"
            " values ('job', 'shop.work', '0 3 * * *')"
        )

    @contextlib.asynccontextmanager
    async def session(self, role: str) -> AsyncGenerator[tuple[Any, list[Any]]]:
        """A connection of this role, and what it is told besides answers."""
        connection: Any = await asyncpg.connect(
            url_for_role(self.sql_schema.database.url, role, PASSWORD)
        )
        told: list[Any] = []
        connection.add_log_listener(lambda _, message: told.append(message))
        try:
            yield connection, told
        finally:
            await connection.close()


@pytest.fixture
async def house(postgres: EmbeddedServer, settings: Settings) -> AsyncIterator[House]:
    name = f"rented_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    owner, tenant = f"{name}_owner", f"{name}_tenant"
    admin = await asyncpg.connect(postgres.url("postgres"))
    await databases.create(postgres.url("postgres"), name)
    for role in (owner, tenant):
        await admin.execute(f"drop role if exists {role}")
        await admin.execute(f"create role {role} login password '{PASSWORD}'")
    await admin.execute(f"alter database {name} owner to {owner}")
    url = url_for_role(postgres.url(name), owner, PASSWORD)
    await migrations.migrate(url)
    database = Database(url)
    await database.open()
    sql_schema = SqlSchema(database, settings.model_copy(update={"clock": "database"}))
    await sql_schema.script("create schema shop; create table shop.sale (id int, note text)")
    yield House(sql_schema, postgres.url(name), owner, tenant)
    await database.close()
    await admin.execute(f"drop database {name} with (force)")
    for role in (owner, tenant):
        await admin.execute(f"drop role {role}")
    await admin.close()


async def test_where_no_roles_can_be_made_functions_run_as_the_engine_and_it_says_so(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    sql_schema = house.sql_schema
    async with sql_schema.serving():
        run = await sql_schema.closed(await sql_schema.call(WHO, policy=ONCE))
    assert (run.state, run.result) == (RunState.COMPLETED, house.owner)
    told = capsys.readouterr().out
    assert "SQL functions run with the rights of the engine" in told
    assert "permission denied to create role" in told


async def test_there_functions_are_triggered_by_hand_by_the_engine_s_members_and_it_warns(
    house: House,
) -> None:
    """As on schedule, and by whoever may have those rights anyway."""
    await house.register(WHO)
    async with house.session(house.owner) as (owner, told):
        answer = json.loads(await owner.fetchval(TRIGGER))
        assert (answer["job_success"], answer["result"]) == (True, house.owner)
        [warning] = told
        assert f"runs with the rights of {house.owner}, as on schedule" in warning.message
        assert "docs/sql.md" in warning.hint
        await owner.execute(f"grant execute on function {FACE} to {house.tenant}")
    async with house.session(house.tenant) as (tenant, told):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="Only administrators can"):
            await tenant.fetchval(TRIGGER)
    assert told == []


async def test_there_a_given_login_is_not_bypassed_by_hand(house: House) -> None:
    sql_schema = house.sql_schema
    await sql_schema.script(f"grant usage on schema shop to {house.tenant}")
    await house.register(WHO)
    given = SecretStr(url_for_role(sql_schema.database.url, house.tenant, PASSWORD))
    await SqlFunction().serve(
        sql_schema.database, sql_schema.settings.model_copy(update={"sql_url": given})
    )
    async with house.session(house.owner) as (owner, _):
        with pytest.raises(
            asyncpg.InsufficientPrivilegeError,
            match=f"rights of {house.owner}, on schedule it has those of {house.tenant}",
        ):
            await owner.fetchval(TRIGGER)


async def test_there_an_administrator_makes_the_role_as_the_page_says(house: House) -> None:
    sql_schema = house.sql_schema
    await house.register(WHO)
    admin = await asyncpg.connect(house.admin_url)
    await admin.execute(RECIPE.replace("to evenbeat;", f"to {house.owner};"))
    await admin.execute("grant usage on schema shop to evenbeat_sql")
    await admin.close()
    async with house.session(house.owner) as (owner, told):
        answer = json.loads(await owner.fetchval(TRIGGER))
    assert (answer.get("result"), told) == ("evenbeat_sql", [])
    assert (await sql_schema.value("select count(*) from evenbeat.run")) == 1


async def test_a_given_login_is_let_in_and_is_no_more_than_it_was(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    sql_schema = house.sql_schema
    await sql_schema.script(f"grant usage on schema shop to {house.tenant}")
    given = SecretStr(url_for_role(sql_schema.database.url, house.tenant, PASSWORD))
    async with sql_schema.serving(sql_url=given):
        run = await sql_schema.closed(await sql_schema.call(WHO, policy=ONCE))
        spy = await sql_schema.closed(
            await sql_schema.call("perform 1 from evenbeat.job; return null;", policy=ONCE)
        )
    assert (run.state, run.result) == (RunState.COMPLETED, house.tenant)
    assert (spy.state, spy.error) == (RunState.FAILED, "permission denied for table job")
    assert "rights of the engine" not in capsys.readouterr().out


async def test_a_given_login_that_is_no_less_than_the_engine_is_told_of(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    async with house.sql_schema.serving(sql_url=SecretStr(house.sql_schema.database.url)):
        assert "rights of the engine" in capsys.readouterr().out


async def test_a_given_login_that_is_wrong_is_not_replaced_by_a_mightier_one(
    house: House,
) -> None:
    given = SecretStr(url_for_role(house.sql_schema.database.url, house.tenant, "wrong"))
    async with house.sql_schema.serving(sql_url=given):
        run = await house.sql_schema.closed(await house.sql_schema.call(WHO, policy=ONCE))
    assert run.state is RunState.FAILED
    assert "password authentication failed" in (run.error or "")


async def test_behind_a_pooler_a_login_past_it_is_needed(
    sql_schema: SqlSchema, settings: Settings
) -> None:
    pooled = Database(sql_schema.database.url, pooler="on")
    with pytest.raises(NotPermitted, match="set sql_url"):
        await SqlFunction().serve(pooled, settings)


async def test_the_login_is_made_once_and_can_do_nothing_by_itself(sql_schema: SqlSchema) -> None:
    first, second = SqlLogin(sql_schema.database), SqlLogin(sql_schema.database)
    assert (await first.prepare()).role == (await second.prepare()).role
    [role] = await sql_schema.fetch(
        "select pg_roles.* from pg_roles join evenbeat.sql_login on rolname = role"
    )
    rights = ("rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls")
    assert not any(role[right] for right in rights)
    owned = await sql_schema.value("select count(*) from pg_class where relowner = $1", role["oid"])
    assert owned == 0


async def test_a_login_whose_password_was_changed_is_not_replaced_by_a_mightier_one(
    sql_schema: SqlSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even while it is changed again and again: here, to something that is never known."""
    role = (await SqlLogin(sql_schema.database).prepare()).role
    await sql_schema.script(f"alter role {role} password 'of a function'")
    unmade = "select role, password from evenbeat.sql_login"
    made = replace(SQL["make_login"], template=unmade)
    monkeypatch.setitem(SQL, "make_login", made)
    with pytest.raises(StoreUnavailable, match="password authentication failed"):
        await SqlLogin(sql_schema.database).prepare()


async def test_a_role_that_was_dropped_is_made_again(sql_schema: SqlSchema) -> None:
    login = SqlLogin(sql_schema.database)
    role = (await login.prepare()).role
    await sql_schema.script(f"drop owned by {role}; drop role {role}")
    async with login.transaction({}, ignore) as session:
        assert session is not None
    assert (await sql_schema.outcome("return null;")).state is RunState.COMPLETED


def ignore(*_: Any) -> None:
    """What it says does not matter here."""


def test_a_url_for_another_role_leads_to_the_same_place() -> None:
    urls = {
        "postgresql://a:b@host:1/db?sslmode=require": "postgresql://r:p%2F@host:1/db?sslmode=require",
        "postgresql://a:b@/db?host=%2Frun&port=1": "postgresql://r:p%2F@/db?host=%2Frun&port=1",
        "postgresql:///db?user=a&password=b&host=h": "postgresql://r:p%2F@/db?host=h",
        "postgresql://a@h1:1,h2:2/db": "postgresql://r:p%2F@h1:1,h2:2/db",
    }
    assert {url: url_for_role(url, "r", "p/") for url in urls} == urls
