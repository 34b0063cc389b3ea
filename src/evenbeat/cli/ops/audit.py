"""`evenbeat audit`: who did what, and when."""

from datetime import datetime
from typing import Annotated, Any

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.jobs import job_selection
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import with_app_and_time
from evenbeat.cli.shell.completion import complete_jobs
from evenbeat.cli.shell.options import DataDir, Limit
from evenbeat.cli.shell.printing import format_json
from evenbeat.control.ops.audit import AuditPage
from evenbeat.core.ops.audit import AuditEntry

app = typer.Typer(help="The audit: who changed what, and when.", no_args_is_help=True)

COLUMNS = ("id", "at", "who", "action", "job", "what")


@app.command("list")
def list_entries(
    job: Annotated[
        str | None,
        typer.Option(
            help="Of this job, by name or id; a deleted job by its id.",
            autocompletion=complete_jobs,
        ),
    ] = None,
    actor: Annotated[
        str | None, typer.Option(help="By this person or program, as in cli:ann.")
    ] = None,
    limit: Limit = 50,
    before: Annotated[
        int | None,
        typer.Option(help="Only entries older than the one with this id: the next page."),
    ] = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """List who changed what, the newest first.

    Example: evenbeat audit list --job report
    """

    async def work(eb: Evenbeat) -> AuditPage:
        uid = None if job is None else await job_selection.find_job_uid(eb, job)
        return await eb.audit.page(job=uid, actor=actor, limit=limit, older_than=before)

    page, now = with_app_and_time(work, data_dir)
    if output is printing.Format.JSON:
        from evenbeat.api.v1.ops.wire.operations import AuditOut

        printing.print_model(AuditOut.from_core(page))
        return
    printing.print_table(COLUMNS, [entry_row(entry, now) for entry in page.entries])
    if page.older_than is not None:
        typer.echo(f"There are more: go on with --before {page.older_than}", err=True)


def entry_row(entry: AuditEntry, now: datetime) -> tuple[Any, ...]:
    changes = [
        f"{name}: {format_json(entry.before.get(name))} → {format_json(entry.after.get(name))}"
        for name in entry.after.keys() | entry.before.keys()
    ]
    return (
        entry.id,
        printing.format_moment(entry.at, now),
        entry.actor.name,
        entry.action,
        entry.job_name or entry.job_uid,
        "; ".join(sorted(changes)),
    )
