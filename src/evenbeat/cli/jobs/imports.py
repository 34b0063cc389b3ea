"""`evenbeat import`: imports the jobs of another scheduler, and reports on every line."""

import os
import pwd
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import cli_actor, with_app
from evenbeat.cli.shell.option_sets import expand_option_sets
from evenbeat.cli.shell.options import DataDir, Yes
from evenbeat.cli.shell.user_app import find_app
from evenbeat.control.jobs.imports import ImportFinding, ImportReport
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.imports import ImportCandidate, ImportStatus, read_crontab_candidates
from evenbeat.core.time import crontab as crontabs
from evenbeat.core.time.schedules.base.zones import check_zone

app = typer.Typer(
    help="Import the jobs of another scheduler. You see a report before anything is written.",
    no_args_is_help=True,
)

File = Annotated[str, typer.Argument(help="The file; - is standard input.")]
ZONE_FILES = (Path("/etc/localtime"), Path("/etc/timezone"))
SYSTEM_CRONTABS = ("/etc/crontab", "/etc/cron.d/")


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The options of every import."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the report.")] = False
    yes: Yes = False
    data_dir: DataDir = None
    output: printing.Output = printing.Format.TABLE


@dataclass(frozen=True, slots=True)
class ImportCommand:
    """The jobs to import, the options, and the lines above the report."""

    candidates: list[ImportCandidate]
    head: dict[str, Any]
    options: ImportOptions


@app.command()
@expand_option_sets
def crontab(
    file: File,
    options: ImportOptions,
    tz: Annotated[
        str | None, typer.Option(help="The zone cron ran in; default: the zone of this machine.")
    ] = None,
    user_column: Annotated[
        bool | None,
        typer.Option(
            "--user-column/--no-user-column",
            help="Whether a user stands before each command, as in /etc/crontab; unset: detected.",
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option(help="The kind of the new jobs; their payload holds the command.")
    ] = "program",
    prefix: Annotated[
        str, typer.Option(help="What the names of the new jobs begin with, as in web1/.")
    ] = "crontab/",
) -> None:
    """Import a crontab: schedules stay cron, in their zone, and the report has every line.

    A job is named after the command it runs, so importing again changes nothing. An existing job
    that differs is not changed. Exit code 1 if a line could not be imported.

    Example: evenbeat import crontab /etc/crontab --dry-run
    """
    zone, source = (check_zone(tz, "--tz"), "--tz") if tz else machine_zone()
    if user_column is None and file.startswith(SYSTEM_CRONTABS):
        user_column = True
    found = crontabs.parse_crontab(read_text(file), has_user_column=user_column, users=list_users())
    head: dict[str, Any] = {
        "zone": zone,
        "zone_from": source,
        "user_column": found.has_user_column,
        "comments": found.comments,
        "blank_lines": found.blanks,
        "carriage_returns_removed": found.has_carriage_returns,
    }
    candidates = read_crontab_candidates(found, zone=zone, prefix=prefix, kind=kind)
    run_import(ImportCommand(list(candidates), head, options))


@app.command("interval-scheduler")
@expand_option_sets
def interval_scheduler(
    file: File,
    options: ImportOptions,
    prefix: Annotated[
        str, typer.Option(help="What the names of the new jobs begin with; the old id follows.")
    ] = "interval-scheduler/",
) -> None:
    """Import the interval scheduler's jobs from a dump of its table, as CSV or NDJSON.

    An interval keeps its rhythm, and outranks a `schedule_time`. A `schedule_time` without an
    interval stays cron. Exit code 1 if a row could not be imported.

    Example: evenbeat import interval-scheduler jobs.csv --dry-run
    """
    # Imported here: the wire models take a while to load, and other commands do not need them.
    from evenbeat.api.v1.jobs.wire import interval_scheduler_rows

    found = interval_scheduler_rows.read_dump(read_text(file))
    head = {
        "rows": len(found),
        "columns_left_out": ", ".join(interval_scheduler_rows.find_ignored_columns(found)),
    }
    run_import(
        ImportCommand(
            list(interval_scheduler_rows.read_candidates(found, prefix=prefix)), head, options
        )
    )


def run_import(command: ImportCommand) -> None:
    options = command.options
    report, warnings = with_app(
        lambda eb: preview_import(eb, command.candidates), options.data_dir, find=find_app
    )
    is_json = options.output is printing.Format.JSON
    if not is_json:
        print_report(report, command.head)
        for warning in warnings:
            typer.echo(f"\n{warning} Until then these jobs wait.")
    new = len(report.candidates_with(ImportStatus.NEW))
    # With JSON output there is no question: a program passes --yes.
    is_wanted = new > 0 and not options.dry_run and (options.yes or not is_json)
    if is_wanted and not options.yes:
        typer.confirm(f"Add {printing.format_count(new, 'new job')}?", abort=True, err=True)
    written = 0
    if is_wanted:
        written = with_app(
            lambda eb: eb.imports.add_new_jobs(report, by=cli_actor()),
            options.data_dir,
            find=find_app,
        )
    if is_json:
        printing.print_json(
            report_as_object(report, command.head) | {"warnings": warnings, "written": written}
        )
    else:
        added = f"Added {printing.format_count(written, 'job')}."
        typer.echo(added if written else "Nothing was written.")
    if report.candidates_with(ImportStatus.REFUSED):
        raise typer.Exit(1)


async def preview_import(
    eb: Evenbeat, candidates: list[ImportCandidate]
) -> tuple[ImportReport, tuple[str, ...]]:
    """What would happen to each, and a warning for each kind that no node serves."""
    report = await eb.imports.preview(candidates)
    found = [each.definition for each in candidates if each.definition]
    return report, await eb.nodes.warnings(found)


def print_report(report: ImportReport, head: dict[str, Any]) -> None:
    for name, value in head.items():
        typer.echo(f"{name.replace('_', ' ')}: {value}")
    typer.echo()
    for finding in report.findings:
        candidate, definition = finding.candidate, finding.candidate.definition
        typer.echo(f"line {candidate.line}: {finding.fate}: {candidate.text}")
        if definition is not None:
            typer.echo(f"    {definition.name}: {definition.timetable.describe()}")
        if finding.why:
            typer.echo(f"    why: {finding.why}")
        if candidate.could_be:
            typer.echo(f"    could be: {candidate.could_be}, but {candidate.would_differ}")
        for remark in candidate.review:
            typer.echo(f"    review: {remark}")
    typer.echo()
    typer.echo(", ".join(f"{count} {what}" for what, count in report.counts().items()))


def report_as_object(report: ImportReport, head: dict[str, Any]) -> dict[str, Any]:
    return head | {
        "counts": report.counts(),
        "findings": [finding_as_object(each) for each in report.findings],
    }


def finding_as_object(finding: ImportFinding) -> dict[str, Any]:
    candidate, definition = finding.candidate, finding.candidate.definition
    schedule = definition and definition.timetable.schedule
    return {
        "line": candidate.line,
        "text": candidate.text,
        "fate": finding.fate,
        "why": finding.why,
        "name": definition and definition.name,
        "kind": definition and definition.kind,
        "schedule": schedule and schedule.to_object(),
        "words": schedule and schedule.describe(),
        "could_be": candidate.could_be,
        "would_differ": candidate.would_differ,
        "review": candidate.review,
        "aside": candidate.aside,
    }


def read_text(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput(file, f"cannot be read: {error.strerror}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InvalidInput(
            file, f"line {line} is not UTF-8: convert it first, with iconv"
        ) from None


def machine_zone() -> tuple[str, str]:
    """The zone of this machine, which cron uses, and where it was found."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if is_zone(named):
        return named, "TZ"
    link, file = ZONE_FILES
    name = str(link.resolve()).partition("zoneinfo/")[2]
    if is_zone(name):
        return name, str(link)
    name = file.read_text().strip() if file.is_file() else ""
    return (name, str(file)) if is_zone(name) else ("UTC", "nothing on this machine")


def is_zone(name: str) -> bool:
    try:
        return bool(name) and check_zone(name, "zone") == name
    except InvalidInput:
        return False


def list_users() -> frozenset[str]:
    return frozenset(each.pw_name for each in pwd.getpwall())
