"""`evenbeat runs`: the runs of jobs and their log lines."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.jobs import job_selection
from evenbeat.cli.runs.run_export import export
from evenbeat.cli.shell import follow_run, printing
from evenbeat.cli.shell.app_session import with_app, with_app_and_time
from evenbeat.cli.shell.completion import complete_jobs
from evenbeat.cli.shell.options import DataDir, Limit
from evenbeat.control.runs.history import RecentRunPage
from evenbeat.core.jobs.ids import run_id, run_uid
from evenbeat.core.jobs.model import Run, RunState
from evenbeat.store.runs.runs import ListedRun, StoredLogLine

app = typer.Typer(help="The runs of all jobs, and their log lines.", no_args_is_help=True)
app.command()(export)

RunId = Annotated[
    UUID, typer.Argument(help="The run's id, as `evenbeat runs list` shows it.", metavar="ID")
]
COLUMNS = ("id", "job", "number", "state", "cause", "started_at", "took", "node", "error")


@app.command("list")
def list_runs(
    job: Annotated[
        str | None,
        typer.Option(help="Of this job, by name or id.", autocompletion=complete_jobs),
    ] = None,
    state: Annotated[
        list[RunState] | None, typer.Option(help="In this state; may be repeated.")
    ] = None,
    limit: Limit = 50,
    before: Annotated[
        UUID | None, typer.Option(help="Only runs older than this one: the next page.")
    ] = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """List runs of all jobs or of one, the newest first, with those in progress.

    Example: evenbeat runs list --job report --state failed
    """

    async def work(eb: Evenbeat) -> RecentRunPage:
        return await eb.runs.newest(
            job=None if job is None else await job_selection.find_job_uid(eb, job),
            states=frozenset(state) if state else None,
            older_than=None if before is None else run_id(before),
            limit=limit,
        )

    page, now = with_app_and_time(work, data_dir)
    if output is printing.Format.JSON:
        printing.print_json(page_as_object(page))
        return
    printing.print_table(COLUMNS, [run_row(each, now) for each in page.runs])
    if page.older_than is not None:
        typer.echo(f"There are more: go on with --before {run_uid(page.older_than)}", err=True)


def page_as_object(page: RecentRunPage) -> dict[str, Any]:
    """As the API lists the runs of one job, with the name of each run's job."""
    from evenbeat.api.v1.runs.wire.execution import ExecutionOut

    return {
        "executions": [
            ExecutionOut.from_core(each.run).model_dump(mode="json") | {"job_name": each.job_name}
            for each in page.runs
        ],
        "next_cursor": page.older_than and run_uid(page.older_than),
    }


def run_row(listed: ListedRun, now: datetime) -> tuple[Any, ...]:
    run = listed.run
    return (
        run_uid(run.id),
        listed.job_name or run.job_uid,
        run.number,
        run.state,
        run.cause,
        printing.format_moment(run.started_at, now),
        run.duration,
        run.node,
        run.error or run.reason,
    )


@app.command("show")
def show_run(
    run: RunId,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait until it ends; the exit code says how it ended.")
    ] = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Show a run: when and where it ran, how it ended, its result or its stack trace.

    Example: evenbeat runs show 65626561-7400-8000-8000-00000000002a
    """
    if follow:
        follow_run.follow(run_id(run), data_dir, output)
        return
    found, now = with_app_and_time(lambda eb: eb.runs.get(run_id(run)), data_dir)
    if output is printing.Format.JSON:
        from evenbeat.api.v1.runs.wire.execution import ExecutionOut

        printing.print_model(ExecutionOut.from_core(found))
    else:
        printing.print_fields(run_fields(found, now))


def run_fields(run: Run, now: datetime) -> dict[str, Any]:
    return {
        "id": run_uid(run.id),
        "job": run.job_uid,
        "number": run.number,
        "state": run.state,
        "cause": run.cause,
        "beat": printing.format_moment(run.beat_at, now),
        "attempt": run.attempt,
        "started": printing.format_moment(run.started_at, now),
        "finished": printing.format_moment(run.finished_at, now),
        "took": run.duration,
        "node": run.node,
        "error class": run.error_class,
        "error": run.error,
        "reason": run.reason,
        "skipped": run.skipped_count,
        "skipped until": printing.format_moment(run.skipped_until, now),
        "result": None if run.result is None else printing.format_json(run.result),
        "stack trace": run.stack_trace and f"\n{run.stack_trace}",
    }


@app.command()
def logs(
    run: RunId,
    follow: Annotated[
        bool, typer.Option("--follow", help="Show new lines until the run ends.")
    ] = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Show the log lines of a run.

    With --follow, the exit code is 0 if the run completes and 1 if it does not.

    Example: evenbeat runs logs 65626561-7400-8000-8000-00000000002a --follow
    """
    if follow:
        if output is printing.Format.JSON:
            raise typer.BadParameter("cannot be used with --output json", param_hint="--follow")
        follow_run.follow(run_id(run), data_dir, output)
        return

    async def work(eb: Evenbeat) -> list[StoredLogLine]:
        found = await eb.runs.get(run_id(run))
        return [line async for line in follow_run.lines_of(eb, found.id)]

    lines = with_app(work, data_dir)
    if output is printing.Format.JSON:
        printing.print_json([{"at": e.at, "level": e.level, "message": e.message} for e in lines])
    else:
        follow_run.print_lines(lines)
