"""`evenbeat jobs list`, `show`, `next` and `versions`: commands that show jobs."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.jobs import job_selection
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import with_app_and_time
from evenbeat.cli.shell.option_sets import expand_option_sets
from evenbeat.cli.shell.options import DataDir, PageOptions
from evenbeat.cli.shell.watch import WatchOption, show_or_watch
from evenbeat.core.jobs.model import Job, Run
from evenbeat.core.limits import LARGEST_LISTING
from evenbeat.core.ops.statistics import Health
from evenbeat.store.jobs.actions import JobVersion
from evenbeat.store.jobs.jobs import UnreadableDefinition

COLUMNS = ("job", "kind", "state", "schedule", "next_run", "last_run", "ok", "failed")
RUN_COLUMNS = ("number", "state", "cause", "started_at", "took", "error")
RUNS_SHOWN = 5


class Sort(StrEnum):
    """What a list of jobs may be sorted by."""

    CREATED = "created"
    UPDATED = "updated"
    STATE = "state"
    NEXT_RUN = "next-run"
    LAST_RUN = "last-run"
    KIND = "kind"
    NAME = "name"
    PRIORITY = "priority"


ORDERS = {
    Sort.CREATED: "created_at",
    Sort.UPDATED: "updated_at",
    Sort.STATE: "status",
    Sort.NEXT_RUN: "next_run_at",
    Sort.LAST_RUN: "last_run_at",
    Sort.KIND: "type",
    Sort.NAME: "name",
    Sort.PRIORITY: "priority",
}
# Sorted in descending order by default: the newest or the highest first.
DESCENDING = (Sort.CREATED, Sort.UPDATED, Sort.LAST_RUN, Sort.PRIORITY)


@expand_option_sets
def list_jobs(
    matching: job_selection.JobMatchOptions,
    page: PageOptions,
    sort: Annotated[Sort, typer.Option(help="Sort by this.")] = Sort.CREATED,
    reverse: Annotated[bool, typer.Option("--reverse", help="In reverse order.")] = False,
    watch: WatchOption = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """List jobs that match, the newest first.

    Example: evenbeat jobs list --state failed --sort last-run
    """
    is_descending = (sort in DESCENDING) is not reverse
    order = f"{ORDERS[sort]}_{'desc' if is_descending else 'asc'}"

    async def show(eb: Evenbeat) -> None:
        found = await eb.listing.page(
            matching.filter(), order=order, limit=page.limit, offset=page.offset
        )
        now = await eb.now()
        if output is printing.Format.JSON:
            from evenbeat.api.v1.jobs.wire.listing import JobsOut

            printing.print_model(
                JobsOut.from_core(found, now, order=order, limit=page.limit, offset=page.offset)
            )
            return
        printing.print_table(COLUMNS, [job_row(job, now) for job in found.jobs])
        page.print_rest(len(found.jobs), found.total)

    show_or_watch(show, watch, data_dir, output)


def job_row(job: Job, now: datetime) -> tuple[Any, ...]:
    pulse = job.pulse
    return (
        job.definition.name or job.uid,
        job.definition.kind,
        pulse.state,
        job.definition.timetable.describe(),
        printing.format_moment(pulse.due_at, now),
        printing.format_moment(pulse.last_started_at, now),
        pulse.completed_count,
        pulse.failed_count,
    )


def show_job(
    job: job_selection.JobArgument,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Show a job: its state, its definition, its next run and its last runs.

    Example: evenbeat jobs show report
    """

    async def work(eb: Evenbeat) -> tuple[Job, str, Health, list[Run]]:
        found = await eb.jobs.find(job)
        return (
            found,
            await eb.jobs.explain(found.uid),
            await eb.statistics.health_of(found.id),
            (await eb.runs.of_job(found.uid, limit=RUNS_SHOWN)).runs,
        )

    (found, explanation, health, runs), now = with_app_and_time(work, data_dir)
    if output is printing.Format.JSON:
        from evenbeat.api.v1.jobs.wire.job_out import JobDetailOut

        printing.print_model(JobDetailOut.from_parts(found, health, now), explanation=explanation)
        return
    printing.print_fields(job_fields(found, explanation, health, now))
    if runs:
        typer.echo()
        printing.print_table(RUN_COLUMNS, [run_row(run, now) for run in runs])


def job_fields(job: Job, explanation: str, health: Health, now: datetime) -> dict[str, Any]:
    written, policy, pulse = job.definition, job.definition.policy, job.pulse
    return {
        "name": written.name,
        "id": job.uid,
        "kind": written.kind,
        "state": pulse.state,
        "why": explanation,
        "schedule": written.timetable.describe(),
        "next run": printing.format_moment(pulse.due_at, now),
        "last run": printing.format_moment(pulse.last_started_at, now),
        "last error": pulse.last_error,
        "runs": f"{pulse.completed_count} completed, {pulse.failed_count} failed",
        "health": "; ".join([health.condition, *health.reasons]),
        "attempts": policy.max_attempts,
        "timeout": policy.timeout,
        "priority": written.priority,
        "group": written.group and written.group.key,
        "labels": ", ".join(
            f"{name}={value}" if value else name for name, value in written.labels.items()
        ),
        "runs on": ", ".join(written.runs_on),
        "payload": printing.format_json(written.payload),
        "version": job.version,
        "created": printing.format_moment(job.created_at, now),
        "updated": printing.format_moment(job.updated_at, now),
    }


def run_row(run: Run, now: datetime) -> tuple[Any, ...]:
    return (
        run.number,
        run.state,
        run.cause,
        printing.format_moment(run.started_at, now),
        run.duration,
        run.error or run.reason,
    )


def next_beats(
    job: job_selection.JobArgument,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=LARGEST_LISTING, help="How many beats.")
    ] = 10,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """List the next beats of a job, by its schedule and in its zone.

    Example: evenbeat jobs next report -n 3
    """

    # Imported here: the wire models take a while to load, and `list` does not need them.
    from evenbeat.api.v1.jobs.wire.job_out import next_beats as beats_of

    found, now = with_app_and_time(lambda eb: eb.jobs.find(job), data_dir)
    beats = beats_of(found, now, count)
    if output is printing.Format.JSON:
        printing.print_json({"id": found.uid, "state": found.pulse.state, "beats": beats})
        return
    timetable = found.definition.timetable
    zone = ZoneInfo(timetable.schedule.options().zone or "UTC")
    typer.echo(f"{found.definition.name or found.uid}: {timetable.describe()}")
    rows = [
        (
            beat.astimezone(zone).strftime("%a %Y-%m-%d %H:%M:%S %Z"),
            printing.format_moment(beat, now),
        )
        for beat in beats
    ]
    if rows:
        printing.print_table(("beat", "in UTC"), rows)
    else:
        typer.echo(f"No beat is to come: the job is {found.pulse.state}.")


def versions(
    job: job_selection.JobArgument,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """List every definition that a job has had, the present one first.

    A deleted job is found by its id.

    Example: evenbeat jobs versions report
    """

    async def work(eb: Evenbeat) -> list[JobVersion]:
        return await eb.jobs.versions(await job_selection.find_job_uid(eb, job))

    found, now = with_app_and_time(work, data_dir)
    if output is printing.Format.JSON:
        from evenbeat.api.v1.jobs.wire.actions import VersionsOut

        printing.print_model(VersionsOut.from_core(found, now))
        return
    rows = [
        (
            each.number,
            version_in_words(each),
            printing.format_moment(each.replaced_at, now),
            each.replaced_by,
        )
        for each in found
    ]
    printing.print_table(("version", "definition", "replaced_at", "replaced_by"), rows)


def version_in_words(version: JobVersion) -> str:
    known = version.definition
    if isinstance(known, UnreadableDefinition):
        return known.error
    payload = printing.format_json(known.payload)
    return f"{known.kind}, {known.timetable.describe()}, payload {payload}"
