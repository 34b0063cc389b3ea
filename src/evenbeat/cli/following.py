"""Waiting beside a run: what it says as it says it, until it ends."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli import show
from evenbeat.cli.opened import me, with_app
from evenbeat.core.model import Cause, ErrorClass, Job, Run, RunState
from evenbeat.store.runs import StoredLine

# Asked of one row by its key: quick enough for people, and nothing to the database.
LOOK_EVERY = 0.2


def run_and_follow(name: str, data_dir: str | None, output: show.Format) -> None:
    """Run a job, wait for that run, and end as it ends."""

    async def work(eb: Evenbeat) -> Run:
        before = await eb.jobs.find(name)
        job = await eb.jobs.run(before.uid, by=me())
        run = await begun(eb, job, before.pulse.run_number)
        return await followed(eb, run, output)

    end_as(with_app(work, data_dir), output)


def follow(run_id: int, data_dir: str | None, output: show.Format) -> None:
    """Wait for a run, and end as it ends."""

    async def work(eb: Evenbeat) -> Run:
        return await followed(eb, await eb.runs.get(run_id), output)

    end_as(with_app(work, data_dir), output)


async def begun(eb: Evenbeat, job: Job, after: int) -> Run:
    """The run that was asked for: by hand, or the retry that came forward instead."""
    by_hand = job.pulse.manual_at is not None
    typer.echo(await eb.jobs.explain(job.uid), err=True)
    while True:
        page = await eb.runs.of_job(job.uid, limit=20, with_skipped=False)
        for run in reversed(page.runs):
            is_asked_for = run.cause is Cause.MANUAL or not by_hand
            # Its node was stopped: it begins again elsewhere.
            is_over_for_nothing = run.error_class is ErrorClass.HANDED_BACK
            if run.number > after and is_asked_for and not is_over_for_nothing:
                return run
        await asyncio.sleep(LOOK_EVERY)


async def followed(eb: Evenbeat, run: Run, output: show.Format) -> Run:
    """Show what it says until it has ended."""
    last = 0
    while True:
        # Looked at before its lines: what it said before its end is not missed.
        run = await eb.runs.get(run.id)
        async for line in lines_of(eb, run.id, after=last):
            last = line.id
            if output is show.Format.TABLE:
                tell_lines([line])
        if run.state is not RunState.RUNNING:
            return run
        await asyncio.sleep(LOOK_EVERY)


async def lines_of(eb: Evenbeat, run_id: int, after: int = 0) -> AsyncIterator[StoredLine]:
    """All that it has said so far, some at a time."""
    while lines := await eb.runs.lines(run_id, after=after):
        for line in lines:
            yield line
        after = lines[-1].id


def tell_lines(lines: Iterable[StoredLine]) -> None:
    for line in lines:
        typer.echo(f"{show.instant(line.at)} {line.level:7} {line.message}")


def end_as(run: Run, output: show.Format) -> None:
    """Tell how the run ended, and be 0 only if it completed."""
    if output is show.Format.JSON:
        from evenbeat.api.v1.wire.execution import ExecutionOut

        show.json(ExecutionOut.from_core(run).model_dump(mode="json"))
    else:
        took = f" after {show.plain(run.duration)}" if run.duration is not None else ""
        why = f": {run.error or run.reason}" if run.error or run.reason else ""
        typer.echo(f"Run {run.number} {run.state}{took}{why}.")
    if run.state is not RunState.COMPLETED:
        raise typer.Exit(1)
