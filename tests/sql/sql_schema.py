"""A schema of somebody's own, functions in it, and nodes that run them."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from evenbeat.core.jobs.model import Job, Run
from evenbeat.handlers.sql_function import SqlFunction
from tests.engine.node_runner import NodeRunner

OPEN = """
    drop schema if exists shop cascade;
    create schema shop;
    grant usage on schema shop to evenbeat_sql;
    create table shop.sale (id bigint generated always as identity, note text);
    grant all on shop.sale to evenbeat_sql;
"""
ONCE: dict[str, Any] = {"max_attempts": 1}


class SqlSchema(NodeRunner):
    """The functions in it run with the rights of whoever calls them, if nothing else is said."""

    async def open(self) -> None:
        await self.script(OPEN)

    async def close(self) -> None:
        await self.script("drop schema shop cascade")

    async def script(self, text: str) -> None:
        async with self.database.connection() as connection:
            await connection.execute(text)

    async def function(self, body: str, *, name: str = "work()", more: str = "") -> None:
        """A function in PL/pgSQL: `body` stands between begin and end."""
        await self.script(f"""
            create or replace function shop.{name} returns jsonb language plpgsql {more}
            as $function$ begin {body} end $function$;
        """)

    async def call(
        self, body: str | None = None, schedule: str = "now", *, more: str = "", **given: Any
    ) -> Job:
        """A job that calls shop.work(), made of this body."""
        if body is not None:
            await self.function(body, more=more)
        return await self.add(
            schedule, kind="sql_function", payload={"function": "shop.work"}, **given
        )

    async def outcome(self, body: str, *, more: str = "", **policy: Any) -> Run:
        """What becomes of a run with this body, at its only attempt."""
        async with self.serving():
            return await self.closed(await self.call(body, more=more, policy=ONCE | policy))

    @contextlib.asynccontextmanager
    async def serving(self, **changes: Any) -> AsyncGenerator[asyncio.Event]:
        """A node that serves SQL functions, until the end of the block or the event."""
        handler = SqlFunction()
        await handler.serve(self.database, self.settings.model_copy(update=changes))
        async with self.node(handler, **changes) as stopping:
            yield stopping

    async def notes(self) -> list[str]:
        """What has been sold."""
        return [row["note"] for row in await self.fetch("select note from shop.sale order by id")]
