"""`evenbeat db`: commands about the schema and the database."""

import asyncio
import os
import subprocess
from datetime import datetime
from typing import Annotated
from urllib.parse import unquote, urlsplit, urlunsplit

import typer

from evenbeat.cli.ops import backups
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import with_url
from evenbeat.cli.shell.options import DataDir, DryRun, Yes
from evenbeat.config import load
from evenbeat.postgres import find_program
from evenbeat.store.database import migrations

app = typer.Typer(
    help="The schema and the database: migrate, back up, restore.", no_args_is_help=True
)
app.command()(backups.backup)
app.command()(backups.restore)


@app.command()
def migrate(dry_run: DryRun = False, data_dir: DataDir = None) -> None:
    """Bring the schema up to date.

    Example: evenbeat db migrate --dry-run
    """

    async def work(url: str) -> None:
        status = await migrations.find_schema_status(url)
        status.check()
        if not status.pending:
            typer.echo("The schema is up to date.")
            return
        for step in status.pending if dry_run else await migrations.migrate(url):
            typer.echo(f"{'Would apply' if dry_run else 'Applied'} {step}.")

    with_url(work, data_dir)


@app.command()
def rollback(
    steps: Annotated[int, typer.Option(min=1, help="How many migrations to roll back.")] = 1,
    dry_run: DryRun = False,
    yes: Yes = False,
    data_dir: DataDir = None,
) -> None:
    """Roll back the newest migrations; their tables are dropped with all rows.

    Example: evenbeat db rollback --steps 1 --dry-run
    """

    async def plan(url: str) -> list[migrations.Migration]:
        status = await migrations.find_schema_status(url)
        status.check()
        return status.newest(steps)

    async def work(url: str) -> None:
        for step in await migrations.rollback(url, steps):
            typer.echo(f"Rolled back {step}.")

    planned = with_url(plan, data_dir)
    if not planned:
        typer.echo("There is nothing to roll back.")
    elif dry_run:
        for step in planned:
            typer.echo(f"Would roll back {step}.")
    else:
        names = ", ".join(map(str, planned))
        if not yes:
            typer.confirm(
                f"Roll back {names}? Their tables are dropped with all rows", abort=True, err=True
            )
        with_url(work, data_dir)


@app.command()
def status(data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE) -> None:
    """Show every migration and repeatable file, with its time; exit code 1 if any is pending.

    Example: evenbeat db status
    """
    found = with_url(migrations.find_schema_status, data_dir)
    printing.print_table(("number", "name", "applied_at"), steps_of(found), output)
    found.check()
    if found.pending:
        raise typer.Exit(1)


def steps_of(found: migrations.SchemaStatus) -> list[tuple[str, str, datetime | None]]:
    """Numbered migrations, then repeatable files, which have a version instead: v1."""
    applied = {step.number: step for step in found.applied}
    names = {step.number: step.name for step in (*found.migrations, *found.applied)}
    numbered = [
        (f"{number:04}", name, applied[number].applied_at if number in applied else None)
        for number, name in sorted(names.items())
    ]
    outdated = {file.name: file for file in found.pending_repeatables}
    recorded = [file for file in found.repeatables if file.name not in outdated]
    return [
        *numbered,
        *((f"v{file.version}", file.name, file.applied_at) for file in recorded),
        *((f"v{file.version}", file.name, None) for file in outdated.values()),
    ]


@app.command()
def url(data_dir: DataDir = None) -> None:
    """Print the URL of the database, with its password.

    Example: evenbeat db url
    """

    async def work(found: str) -> str:
        return found

    typer.echo(with_url(work, data_dir))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context, data_dir: DataDir = None) -> None:
    """Open psql on the database. It gets the arguments, and its exit code is the exit code here.

    Example: evenbeat db psql -c "select count(*) from evenbeat.job"
    """

    program = find_program("psql", load(data_dir=data_dir).pg_bin)

    async def work(found: str) -> int:
        url, environ = without_password(found)
        command = [program, url, *context.args]
        ended = await asyncio.to_thread(subprocess.run, command, check=False, env=environ)
        return ended.returncode

    raise typer.Exit(with_url(work, data_dir))


def without_password(url: str) -> tuple[str, dict[str, str]]:
    """Pass the password by the environment: every user can read the command line of a process."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    given = {"PGPASSWORD": unquote(password)} if password else {}
    return urlunsplit(parts._replace(netloc=f"{name}{at}{hosts}")), {**os.environ, **given}
