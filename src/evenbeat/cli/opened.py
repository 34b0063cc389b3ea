"""What commands share that look into the database and change it."""

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.core.audit import Actor
from evenbeat.core.errors import MigrationFailed
from evenbeat.observe import log

Result = TypeVar("Result")
DataDir = Annotated[str | None, typer.Option(help="Home of the embedded server.")]


def with_app(work: Callable[[Evenbeat], Awaitable[Result]], data_dir: str | None) -> Result:
    settings = load(data_dir=data_dir)
    log.configure(settings)

    async def run() -> Result:
        async with Evenbeat(settings) as eb:
            await check_schema(eb)
            return await work(eb)

    return asyncio.run(run())


async def check_schema(eb: Evenbeat) -> None:
    status = await eb.schema_status()
    status.check()
    if status.pending:
        raise MigrationFailed("the schema is not up to date: run `evenbeat db migrate`")


def whoami() -> str:
    """For the record: the name of this machine's user, if it has one."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return "cli"


def me() -> Actor:
    return Actor(whoami())
