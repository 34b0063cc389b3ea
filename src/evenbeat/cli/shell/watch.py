"""Shows something once, or again every two seconds."""

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
INTERVAL = 2.0


def show_or_watch(
    show: Callable[[Evenbeat], Awaitable[None]],
    watch: bool,
    data_dir: str | None,
    output: printing.Format,
) -> None:
    """Call `show` once, or again and again until Ctrl-C."""
    if watch and output is printing.Format.JSON:
        raise typer.BadParameter("cannot be used with --output json", param_hint="--watch")

    async def show_forever(eb: Evenbeat) -> None:
        while True:
            Console().clear()
            await show(eb)
            await asyncio.sleep(INTERVAL)

    with_app(show_forever if watch else show, data_dir)
