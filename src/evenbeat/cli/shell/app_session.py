"""Opens an app for one command; an embedded server runs until the command ends."""

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
    """Call `work` with an app whose schema is up to date.

    `find` makes the app; commands that need the user's handlers pass `find_app`.
    """

    async def checked(eb: Evenbeat) -> Result:
        await check_schema(eb)
        return await work(eb)

    return with_any_schema(checked, data_dir, find=find)


def with_app_and_time(
    work: Callable[[Evenbeat], Awaitable[Result]], data_dir: str | None = None
) -> tuple[Result, datetime]:
    """The same, with the time of the database, to show how long ago things were."""

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
    """Call `work` with the URL of the database; an embedded server runs until it returns."""

    settings = load(data_dir=data_dir)
    # Logs go to standard error: the output of `evenbeat db url` may be used in a shell's $( ).
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
    """Log only warnings and errors, unless the user has set a log level."""
    if settings.origins["log_level"] != "default":
        return settings
    return load(data_dir=data_dir, log_level="warning")


async def check_schema(eb: Evenbeat) -> None:
    status = await eb.schema_status()
    status.check()
    if status.pending:
        raise MigrationFailed("the schema is not up to date: run `evenbeat db migrate`")


def actor_name() -> str:
    """The name for the audit: the user of this machine, if it has a name."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return "cli"


def cli_actor() -> Actor:
    return Actor(actor_name())
