"""`evenbeat jobs add`, `edit` and `restore`: commands that write definitions."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import datetime
from typing import Annotated, Any, cast

import typer

from evenbeat.api.v1.jobs.wire.job_in import BatchIn, JobIn
from evenbeat.api.v1.jobs.wire.job_out import BatchOut, JobOut
from evenbeat.api.v1.jobs.wire.patch import apply_changes, find_changes, take_switch
from evenbeat.app import Evenbeat
from evenbeat.cli.jobs import job_options, job_selection
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import cli_actor, with_app
from evenbeat.cli.shell.option_sets import expand_option_sets
from evenbeat.cli.shell.options import DataDir
from evenbeat.cli.shell.user_app import find_app
from evenbeat.control.jobs.actions import open_dry_run
from evenbeat.control.jobs.adding import Batch
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import Job

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything and show the result; change nothing.")
]


@expand_option_sets
def add(
    fields: job_options.JobFieldOptions,
    name: Annotated[
        str | None, typer.Argument(help="The job's name; a job in a file may have its own.")
    ] = None,
    put: Annotated[bool, typer.Option("--put", help="If a job has this name, change it.")] = False,
    dry_run: DryRun = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Add a job; without a schedule it runs once, now.

    A file holds the fields of one job, or an array of jobs. Options outrank the fields of one job.

    Example: evenbeat jobs add report --kind http --cron "0 8 * * MON-FRI" --tz Europe/Berlin
    --payload '{"url": "https://example.com/report"}'
    """
    options, found = fields.object(name), fields.read_file()
    if isinstance(found, list):
        if options or put:
            raise typer.BadParameter(
                "an array of jobs takes no other options: write them into the file",
                param_hint="--file",
            )
        add_many(cast("list[Any]", found), dry_run, data_dir, output)
        return
    if put and dry_run:
        raise typer.BadParameter("cannot be used with --put", param_hint="--dry-run")
    with job_options.errors_by_field():
        job_in = JobIn.model_validate(job_options.fields_of(found) | options)
    job, now = with_app(lambda eb: add_one(eb, job_in, put, dry_run), data_dir, find=find_app)
    if output is printing.Format.JSON:
        printing.print_model(JobOut.from_core(job, now), dry_run=dry_run)
    else:
        print_added(job, now, dry_run=dry_run)


async def add_one(eb: Evenbeat, job_in: JobIn, put: bool, dry_run: bool) -> tuple[Job, datetime]:
    new_job = job_in.to_core()
    if put:
        job = await eb.jobs.put(new_job, by=cli_actor())
    else:
        async with open_connection(eb, dry_run) as connection:
            job = await eb.jobs.add(
                new_job, dedupe_key=job_in.dedupe_key, connection=connection, by=cli_actor()
            )
    return job, await eb.now()


def add_many(jobs: list[Any], dry_run: bool, data_dir: str | None, output: printing.Format) -> None:
    with job_options.errors_by_field():
        batch_in = BatchIn.model_validate({"jobs": jobs})

    async def work(eb: Evenbeat) -> Batch:
        async with open_connection(eb, dry_run) as connection:
            return await eb.jobs.add_many(batch_in.to_core(), connection=connection, by=cli_actor())

    with printing.show_progress(f"Adding {printing.format_count(len(jobs), 'job')} …"):
        batch = with_app(work, data_dir, find=find_app)
    if output is printing.Format.JSON:
        printing.print_model(BatchOut.from_core(batch), dry_run=dry_run)
        return
    what = "Would add" if dry_run else "Added"
    existing = f"; {len(batch.found)} exist already" if batch.found else ""
    typer.echo(f"{what} {printing.format_count(batch.new_count, 'job')}{existing}.")
    print_warnings(batch.warnings)


def open_connection(eb: Evenbeat, dry_run: bool) -> AbstractAsyncContextManager[Any]:
    return open_dry_run(eb.database) if dry_run else nullcontext()


def print_added(job: Job, now: datetime, *, dry_run: bool) -> None:
    name, words = job.definition.name or job.uid, job.definition.timetable.describe()
    if dry_run:
        what = f"Would add {name}"
    elif job.is_new:
        what = f"Added {name} ({job.uid})" if job.definition.name else f"Added {name}"
    else:
        what = f"{name} exists already ({job.uid})"
    typer.echo(f"{what}: {words}.")
    typer.echo(f"Next run: {printing.format_moment(job.pulse.due_at, now) or 'none'}")
    print_warnings(JobOut.from_core(job, now).warnings)


def print_warnings(warnings: Iterable[str]) -> None:
    for warning in warnings:
        typer.echo(f"Warning: {warning}", err=True)


@expand_option_sets
def edit(
    job: job_selection.JobArgument,
    fields: job_options.JobFieldOptions,
    name: Annotated[str | None, typer.Option(help="A new name for the job.")] = None,
    version: Annotated[
        int | None, typer.Option(help="Edit only if the job is at this version.")
    ] = None,
    dry_run: DryRun = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Change the given fields of a job; a run in progress keeps the old definition.

    Given labels and --runs-on replace those of the job. A field that is null in the file gets its
    default back.

    Example: evenbeat jobs edit report --daily 06:30 --tz Europe/Berlin --timeout 10m
    """
    body = job_options.fields_of(fields.read_file()) | fields.object(name)
    if not body:
        raise typer.BadParameter("say what to change, by options or in a file")

    async def work(eb: Evenbeat) -> tuple[Job, Job, datetime]:
        was, now = await eb.jobs.find(job), await eb.now()
        with job_options.errors_by_field():
            changes = find_changes(body, JobOut.from_core(was, now))
            if take_switch(was, changes) is not None:
                raise InvalidInput("schedule_enabled", "use `evenbeat jobs enable` or `disable`")
            to = apply_changes(was, changes, now)
        if not changes:
            return was, was, now
        expected = was.version if version is None else version
        job_now = await eb.jobs.edit(was.uid, to, version=expected, by=cli_actor(), dry_run=dry_run)
        return was, job_now, now

    was, job_now, now = with_app(work, data_dir, find=find_app)
    print_changes(was, job_now, now, dry_run, output)


def print_changes(
    was: Job, job: Job, now: datetime, dry_run: bool, output: printing.Format
) -> None:
    before, after = (JobOut.from_core(each, now).model_dump(mode="json") for each in (was, job))
    if output is printing.Format.JSON:
        printing.print_json(after | {"dry_run": dry_run})
        return
    shown = [name for name in after if name in JobIn.model_fields or name == "next_run_at"]
    rows = [
        (name, printing.format_json(before[name]), printing.format_json(after[name]))
        for name in shown
        if before[name] != after[name]
    ]
    name = job.definition.name or job.uid
    print_warnings(after["warnings"])
    if not rows:
        typer.echo(f"{name} has these values already.")
        return
    typer.echo(f"{'Would change' if dry_run else 'Changed'} {name}, version {job.version}.")
    printing.print_table(("field", "was", "is"), rows)


def restore(
    job: job_selection.JobArgument,
    version: Annotated[int, typer.Argument(help="The number that `evenbeat jobs versions` shows.")],
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Restore an earlier definition of a job.

    Example: evenbeat jobs restore report 3
    """

    async def work(eb: Evenbeat) -> tuple[Job, Job, datetime]:
        was = await eb.jobs.find(job)
        return was, await eb.jobs.restore(was.uid, version, by=cli_actor()), await eb.now()

    was, restored, now = with_app(work, data_dir, find=find_app)
    print_changes(was, restored, now, False, output)
