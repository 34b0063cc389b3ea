"""Waiting beside a run: what it says as it says it, until it ends."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import cli_actor, with_app
from evenbeat.core.errors import Conflict
from evenbeat.core.jobs.model import Cause, ErrorClass, Job, Run, RunState, State
from evenbeat.store.runs.runs import StoredLogLine

# Asked of one row by its key: quick enough for people, and nothing to the database.
LOOK_EVERY = 0.2
# Beats that go before it in the meantime are fewer.
NEWEST = 20


def run_and_follow(name: str, data_dir: str | None, output: printing.Format) -> None:
    """Run a job, wait for that run, and end as it ends."""

    async def work(eb: Evenbeat) -> Run:
        before = await eb.jobs.find(name)
        job = await eb.jobs.run(before.uid, by=cli_actor())
        typer.echo(await eb.jobs.explain(job.uid), err=True)
        last = before.pulse.run_number
        while True:
            run = await followed(eb, await begun(eb, job, last), output)
            if run.error_class is not ErrorClass.HANDED_BACK:
                return run
            # Its node was stopped, and it begins again elsewhere.
            last = run.number

    end_as(with_app(work, data_dir), output)


def follow(run_id: int, data_dir: str | None, output: printing.Format) -> None:
    """Wait for a run, and end as it ends."""

    async def work(eb: Evenbeat) -> Run:
        return await followed(eb, await eb.runs.get(run_id), output)

    end_as(with_app(work, data_dir), output)


async def begun(eb: Evenbeat, asked: Job, last: int) -> Run:
    """The run that was asked for: by hand, or the retry that came forward instead."""
    by_hand = asked.pulse.manual_at is not None
    while True:
        # Looked at before its runs: one that began meanwhile is among them.
        job = await eb.jobs.get(asked.uid)
        page = await eb.runs.of_job(job.uid, limit=NEWEST, with_skipped=False)
        for run in reversed(page.runs):
            if run.number > last and (run.cause is Cause.MANUAL or not by_hand):
                return run
        awaited = job.pulse.manual_at if by_hand else job.pulse.retry_at
        if awaited is None and job.pulse.state is not State.RUNNING:
            raise Conflict(f"the run was called off. {await eb.jobs.explain(job.uid)}")
        await asyncio.sleep(LOOK_EVERY)


async def followed(eb: Evenbeat, run: Run, output: printing.Format) -> Run:
    """Show what it says until it has ended."""
    last = 0
    while True:
        # Looked at before its lines: what it said before its end is not missed.
        run = await eb.runs.get(run.id)
        async for line in lines_of(eb, run.id, after=last):
            last = line.id
            if output is printing.Format.TABLE:
                tell_lines([line])
        if run.state is not RunState.RUNNING:
            return run
        await asyncio.sleep(LOOK_EVERY)


async def lines_of(eb: Evenbeat, run_id: int, after: int = 0) -> AsyncIterator[StoredLogLine]:
    """All that it has said so far, some at a time."""
    while lines := await eb.runs.lines(run_id, after=after):
        for line in lines:
            yield line
        after = lines[-1].id


def tell_lines(lines: Iterable[StoredLogLine]) -> None:
    for line in lines:
        typer.echo(f"{printing.format_instant(line.at)} {line.level:7} {line.message}")


def end_as(run: Run, output: printing.Format) -> None:
    """Tell how the run ended, and be 0 only if it completed."""
    if output is printing.Format.JSON:
        from evenbeat.api.v1.runs.wire.execution import ExecutionOut

        printing.print_model(ExecutionOut.from_core(run))
    else:
        took = f" after {printing.format_value(run.duration)}" if run.duration is not None else ""
        why = f": {run.error or run.reason}" if run.error or run.reason else ""
        typer.echo(f"Run {run.number} {run.state}{took}{why}.")
    if run.state is not RunState.COMPLETED:
        raise typer.Exit(1)
