"""`evenbeat maintenance`: while it is on, no node starts a run."""

from datetime import datetime
from typing import Annotated

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import cli_actor, with_app_and_time
from evenbeat.cli.shell.options import DataDir
from evenbeat.store.ops.maintenance import Maintenance

app = typer.Typer(help="Maintenance: while it is on, no node starts a run.", no_args_is_help=True)


@app.command("on")
def switch_on(
    reason: Annotated[str, typer.Argument(help="Why maintenance is on; others see it.")],
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Start no more runs on any node; runs in progress finish.

    Example: evenbeat maintenance on "moving the database"
    """
    print_maintenance(
        *with_app_and_time(lambda eb: eb.maintenance.on(reason, by=cli_actor()), data_dir), output
    )


@app.command("off")
def switch_off(data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE) -> None:
    """Start runs again; every job catches up as its definition says.

    Example: evenbeat maintenance off
    """

    async def work(eb: Evenbeat) -> Maintenance | None:
        await eb.maintenance.off(by=cli_actor())
        return await eb.maintenance.status()

    print_maintenance(*with_app_and_time(work, data_dir), output)


@app.command("status")
def show_status(data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE) -> None:
    """Show whether maintenance is on, since when, why, and by whom.

    Example: evenbeat maintenance status
    """
    print_maintenance(*with_app_and_time(lambda eb: eb.maintenance.status(), data_dir), output)


def print_maintenance(found: Maintenance | None, now: datetime, output: printing.Format) -> None:
    if output is printing.Format.JSON:
        from evenbeat.api.v1.ops.wire.operations import MaintenanceOut

        printing.print_model(MaintenanceOut.from_core(found))
    else:
        typer.echo(maintenance_in_words(found, now))


def maintenance_in_words(found: Maintenance | None, now: datetime) -> str:
    if found is None:
        return "Maintenance is off."
    since = printing.format_moment(found.since, now)
    return f"Maintenance is on since {since}, by {found.actor}: {found.reason}"
