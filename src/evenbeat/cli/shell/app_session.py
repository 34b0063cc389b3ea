"""An open app for one command: its database runs as long as the command takes."""

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

from evenbeat.app import Evenbeat
from evenbeat.config import Settings, load
from evenbeat.core.errors import MigrationFailed
from evenbeat.core.ops.audit import Actor
from evenbeat.observe import log
from evenbeat.store.database.connection_errors import translate_privilege_errors

Result = TypeVar("Result")


def with_app(
    work: Callable[[Evenbeat], Awaitable[Result]],
    data_dir: str | None = None,
    *,
    find: Callable[[Settings], Evenbeat] = Evenbeat,
) -> Result:
    """Do something with an app whose schema is up to date; `find` it where kinds matter."""

    async def checked(eb: Evenbeat) -> Result:
        await check_schema(eb)
        return await work(eb)

    return with_any_schema(checked, data_dir, find=find)


def with_app_and_time(
    work: Callable[[Evenbeat], Awaitable[Result]], data_dir: str | None = None
) -> tuple[Result, datetime]:
    """The same, and the database's time: for what tells how long ago things were."""

    async def timed(eb: Evenbeat) -> tuple[Result, datetime]:
        return await work(eb), await eb.now()

    return with_app(timed, data_dir)


def with_any_schema(
    work: Callable[[Evenbeat], Awaitable[Result]],
    data_dir: str | None = None,
    *,
    find: Callable[[Settings], Evenbeat] = Evenbeat,
) -> Result:
    settings = quiet_settings(load(data_dir=data_dir), data_dir)
    log.configure(settings)

    async def run() -> Result:
        eb = find(settings)
        try:
            return await work(await eb.open())
        finally:
            await eb.close()

    with translate_privilege_errors():
        return asyncio.run(run())


def with_url(work: Callable[[str], Awaitable[Result]], data_dir: str | None = None) -> Result:
    """Do something with the database's URL; an embedded server runs as long as it takes."""

    settings = load(data_dir=data_dir)
    # Standard output is the command's own: `evenbeat db url` may stand in a shell's $( ).
    log.configure(settings)

    async def run() -> Result:
        eb = Evenbeat(settings)
        try:
            return await work(await eb.start_database())
        finally:
            await eb.close()

    with translate_privilege_errors():
        return asyncio.run(run())


def quiet_settings(settings: Settings, data_dir: str | None) -> Settings:
    """A command says itself what it does: its log is for what goes wrong, unless asked for more."""
    if settings.origins["log_level"] != "default":
        return settings
    return load(data_dir=data_dir, log_level="warning")


async def check_schema(eb: Evenbeat) -> None:
    status = await eb.schema_status()
    status.check()
    if status.pending:
        raise MigrationFailed("the schema is not up to date: run `evenbeat db migrate`")


def actor_name() -> str:
    """For the record: the name of this machine's user, if it has one."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return "cli"


def cli_actor() -> Actor:
    return Actor(actor_name())
