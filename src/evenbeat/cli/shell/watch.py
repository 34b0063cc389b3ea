"""Looking once, or again and again until Ctrl-C."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from rich.console import Console

from evenbeat.app import Evenbeat
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import with_app

WatchOption = Annotated[
    bool, typer.Option("--watch", help="Show it again every two seconds, until Ctrl-C.")
]
LOOK_EVERY = 2.0


def show_or_watch(
    look: Callable[[Evenbeat], Awaitable[None]],
    watch: bool,
    data_dir: str | None,
    output: printing.Format,
) -> None:
    """`look` shows what it finds."""
    if watch and output is printing.Format.JSON:
        raise typer.BadParameter("goes with tables only", param_hint="--watch")

    async def keep_looking(eb: Evenbeat) -> None:
        while True:
            Console().clear()
            await look(eb)
            await asyncio.sleep(LOOK_EVERY)

    with_app(keep_looking if watch else look, data_dir)
