"""The command `evenbeat`: its subcommands, and how it ends on errors."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console

from evenbeat.cli.shell import printing
from evenbeat.cli.shell.lazy_commands import LazyCommand, make_lazy_group
from evenbeat.cli.shell.options import DataDir
from evenbeat.config import Settings, load
from evenbeat.core.errors import EvenbeatError

COMMANDS = {
    "status": LazyCommand("ops.status", "status"),
    "jobs": LazyCommand("jobs.jobs"),
    "runs": LazyCommand("runs.runs"),
    "explain": LazyCommand("jobs.explain", "explain"),
    "schedule": LazyCommand("jobs.schedule", "schedule"),
    "balance": LazyCommand("balance.balance"),
    "groups": LazyCommand("jobs.groups"),
    "dlq": LazyCommand("runs.dlq"),
    "stats": LazyCommand("ops.stats", "stats"),
    "templates": LazyCommand("jobs.templates"),
    "nodes": LazyCommand("ops.nodes"),
    "maintenance": LazyCommand("ops.maintenance"),
    "audit": LazyCommand("ops.audit"),
    "token": LazyCommand("ops.tokens", "token"),
    "tokens": LazyCommand("ops.tokens"),
    "import": LazyCommand("jobs.imports"),
    "doctor": LazyCommand("ops.doctor", "doctor"),
    "verify": LazyCommand("ops.verify", "verify"),
    "db": LazyCommand("ops.db"),
}

app = typer.Typer(
    cls=make_lazy_group(COMMANDS),
    help="Evenbeat: a job scheduler on PostgreSQL that keeps the load even and every job on beat.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Evenbeat's errors print one line, exit code 1. Typer prints wrong usage, exit code 2."""
    try:
        app()
    except EvenbeatError as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"evenbeat: {error}", markup=False
        )
        sys.exit(1)


@app.callback(invoke_without_command=True)
def evenbeat(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if show_version:
        typer.echo(f"evenbeat {version('evenbeat')}")
        raise typer.Exit


Host = Annotated[
    str | None, typer.Option(help="Address to listen on; 127.0.0.1 is for this machine only.")
]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 takes any free port.")]
Concurrency = Annotated[int | None, typer.Option(help="How many runs this node executes at once.")]


@app.command()
def up(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    concurrency: Concurrency = None,
) -> None:
    """Run everything in one process: PostgreSQL, the API and a node that runs jobs.

    Example: evenbeat up --port 8061
    """
    run(load(host=host, port=port, data_dir=data_dir, concurrency=concurrency), "api", "node")


@app.command()
def server(host: Host = None, port: Port = None, data_dir: DataDir = None) -> None:
    """Run only the API; `evenbeat worker` runs the jobs.

    Example: evenbeat server --host 0.0.0.0
    """
    run(load(host=host, port=port, data_dir=data_dir), "api")


@app.command()
def worker(data_dir: DataDir = None, concurrency: Concurrency = None) -> None:
    """Run only a node: it runs jobs, and waits until the schema has been migrated.

    Example: evenbeat worker --concurrency 20
    """
    run(load(data_dir=data_dir, concurrency=concurrency), "node")


def run(settings: Settings, *parts: str) -> None:
    # Imported here: the API takes half a second to load, and other commands do not need it.
    from evenbeat.cli.ops import service

    service.run(settings, parts)


@app.command()
def config(output: printing.Output = printing.Format.TABLE) -> None:
    """Show every setting, its value, and where the value comes from.

    Example: evenbeat config
    """
    printing.print_settings(load(), output)
