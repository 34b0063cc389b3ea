"""`evenbeat runs export`: writes the history as CSV or NDJSON."""

import contextlib
import os
import sys
from collections.abc import Generator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.jobs import job_selection
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import with_app
from evenbeat.cli.shell.completion import complete_jobs
from evenbeat.cli.shell.options import DataDir
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import RunState
from evenbeat.core.runs.run_export import RunFilter, csv_header, csv_line, json_line
from evenbeat.core.time.schedules.base.instants import read_instant


class LineFormat(StrEnum):
    """How a run is written as a line."""

    CSV = "csv"
    NDJSON = "ndjson"


def export(
    job: Annotated[
        str | None,
        typer.Option(
            help="Only of this job, by name or id; a deleted job by its id.",
            autocompletion=complete_jobs,
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Started at this instant or later, as in 2026-12-01T00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Started before this instant.")] = None,
    state: Annotated[
        list[RunState] | None, typer.Option(help="In this state; may be repeated.")
    ] = None,
    form: Annotated[LineFormat, typer.Option("--format", help="csv or ndjson")] = LineFormat.CSV,
    to: Annotated[
        Path | None, typer.Option(help="A new file; default: standard output.", dir_okay=False)
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Write texts in CSV unchanged, also those that a spreadsheet runs as formulas.",
        ),
    ] = False,
    data_dir: DataDir = None,
) -> None:
    """Write every run as a line, the oldest first, from one snapshot.

    In CSV, a text that a spreadsheet would run as a formula gets a ' in front. NDJSON is exact.

    Example: evenbeat runs export --job report --since 2026-12-01T00:00Z --to runs.csv
    """
    wanted = RunFilter(
        None,
        None if since is None else read_instant(since, "--since"),
        None if until is None else read_instant(until, "--until"),
        frozenset(state) if state else None,
    )

    async def work(eb: Evenbeat) -> int:
        count, uid = 0, None if job is None else await job_selection.find_job_uid(eb, job)
        with open_output(to) as file, printing.show_progress("Exporting runs") as advance:
            if form is LineFormat.CSV:
                file.write(csv_header().encode())
            async for run in eb.runs.export(replace(wanted, job_uid=uid)):
                is_csv = form is LineFormat.CSV
                line = csv_line(run, is_exact=exact) if is_csv else json_line(run)
                file.write(line.encode())
                advance("", 1)
                count += 1
        return count

    count = with_app(work, data_dir)
    typer.echo(f"Exported {printing.format_count(count, 'run')}.", err=True)


@contextlib.contextmanager
def open_output(to: Path | None) -> Generator[IO[bytes]]:
    """Standard output, or a new file that others cannot read."""
    if to is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidInput(str(to), f"cannot be written: {error.strerror}") from None
    with os.fdopen(descriptor, "wb") as file:
        try:
            yield file
        except BaseException:
            # A partial file would look like a complete one.
            to.unlink(missing_ok=True)
            raise
