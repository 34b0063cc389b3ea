"""Follows a run: prints its log lines as they come, until it ends."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import cli_actor, with_app
from evenbeat.core.errors import Conflict
from evenbeat.core.jobs.model import Cause, ErrorClass, Job, Run, RunState, State
from evenbeat.store.runs.runs import StoredLogLine

# One row is read by its key: cheap for the database, and fast enough for a user.
POLL_INTERVAL = 0.2
# The run is among this many newest ones: fewer beats come before it in the meantime.
NEWEST = 20


def run_and_follow(name: str, data_dir: str | None, output: printing.Format) -> None:
    """Run a job, wait for that run, and exit with its outcome."""

    async def work(eb: Evenbeat) -> Run:
        before = await eb.jobs.find(name)
        job = await eb.jobs.run(before.uid, by=cli_actor())
        typer.echo(await eb.jobs.explain(job.uid), err=True)
        last = before.pulse.run_number
        while True:
            run = await wait_for_end(eb, await wait_for_start(eb, job, last), output)
            if run.error_class is not ErrorClass.HANDED_BACK:
                return run
            # Its node was stopped, and the run starts again on another one.
            last = run.number

    exit_with(with_app(work, data_dir), output)


def follow(run_id: int, data_dir: str | None, output: printing.Format) -> None:
    """Wait for a run, and exit with its outcome."""

    async def work(eb: Evenbeat) -> Run:
        return await wait_for_end(eb, await eb.runs.get(run_id), output)

    exit_with(with_app(work, data_dir), output)


async def wait_for_start(eb: Evenbeat, requested: Job, last: int) -> Run:
    """The requested run: a manual one, or the waiting retry that was brought forward instead."""
    is_manual = requested.pulse.manual_at is not None
    while True:
        # The job is read before its runs: a run that starts in between is then among them.
        job = await eb.jobs.get(requested.uid)
        page = await eb.runs.of_job(job.uid, limit=NEWEST, with_skipped=False)
        for run in reversed(page.runs):
            if run.number > last and (run.cause is Cause.MANUAL or not is_manual):
                return run
        waits_until = job.pulse.manual_at if is_manual else job.pulse.retry_at
        if waits_until is None and job.pulse.state is not State.RUNNING:
            raise Conflict(
                f"the run was cancelled before it started. {await eb.jobs.explain(job.uid)}"
            )
        await asyncio.sleep(POLL_INTERVAL)


async def wait_for_end(eb: Evenbeat, run: Run, output: printing.Format) -> Run:
    """Print log lines until the run has ended."""
    last = 0
    while True:
        # The run is read before its lines: lines from just before its end are then not missed.
        run = await eb.runs.get(run.id)
        async for line in lines_of(eb, run.id, after=last):
            last = line.id
            if output is printing.Format.TABLE:
                print_lines([line])
        if run.state is not RunState.RUNNING:
            return run
        await asyncio.sleep(POLL_INTERVAL)


async def lines_of(eb: Evenbeat, run_id: int, after: int = 0) -> AsyncIterator[StoredLogLine]:
    """All log lines so far, read page by page."""
    while lines := await eb.runs.lines(run_id, after=after):
        for line in lines:
            yield line
        after = lines[-1].id


def print_lines(lines: Iterable[StoredLogLine]) -> None:
    for line in lines:
        typer.echo(f"{printing.format_instant(line.at)} {line.level:7} {line.message}")


def exit_with(run: Run, output: printing.Format) -> None:
    """Print how the run ended; exit code 0 only if it completed."""
    if output is printing.Format.JSON:
        from evenbeat.api.v1.runs.wire.execution import ExecutionOut

        printing.print_model(ExecutionOut.from_core(run))
    else:
        took = f" after {printing.format_value(run.duration)}" if run.duration is not None else ""
        why = f": {run.error or run.reason}" if run.error or run.reason else ""
        typer.echo(f"Run {run.number} {run.state}{took}{why}.")
    if run.state is not RunState.COMPLETED:
        raise typer.Exit(1)
