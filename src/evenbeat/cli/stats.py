"""`evenbeat stats`: what runs come to, of everything, a job, a kind or a group, and by day."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli import show
from evenbeat.cli.completion import complete_jobs
from evenbeat.cli.opened import with_app
from evenbeat.cli.options import DataDir
from evenbeat.core.statistics import Day, Overview, RunCounts, Scope, Statistics

DAY_COLUMNS = (
    *("day", "completed", "failed", "cancelled", "skipped", "retried"),
    *("success_rate", "average_duration"),
)


def stats(
    job: Annotated[
        str | None,
        typer.Option(help="Of the job of this name or id.", autocompletion=complete_jobs),
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Of jobs of this kind.")] = None,
    group: Annotated[str | None, typer.Option(help="Of jobs of this group.")] = None,
    days: Annotated[
        int | None, typer.Option(min=1, max=400, help="By day, of the last so many.")
    ] = None,
    data_dir: DataDir = None,
    output: show.Output = show.Format.TABLE,
) -> None:
    """Show jobs by status, runs by outcome, the success rate and dead letters."""
    if job is not None:
        if kind or group:
            raise typer.BadParameter("goes without --kind and --group", param_hint="--job")
        tell_job(job, days, data_dir, output)
        return
    scope = Scope(kind=kind, group=group)
    if days is not None:
        tell_days(with_app(lambda eb: eb.statistics.trend(days, scope), data_dir), output)
        return

    async def work(eb: Evenbeat) -> Overview:
        return await eb.statistics.of_all(scope)

    overview = with_app(work, data_dir)
    if output is show.Format.JSON:
        show.json(as_object(overview))
        return
    rows = [
        *((f"jobs {word}", count) for word, count in overview.activity.items()),
        *((f"jobs {state}", count) for state, count in sorted(overview.jobs.items())),
        *((f"runs {name}", value) for name, value in told(overview.runs).items()),
        ("dead letters", overview.dead_letters),
        ("dead letters not acknowledged", overview.open_dead_letters),
    ]
    show.rows(("what", "value"), rows, output)


def tell_job(name: str, days: int | None, data_dir: str | None, output: show.Format) -> None:
    async def work(eb: Evenbeat) -> Statistics | list[Day]:
        uid = (await eb.jobs.find(name)).uid
        if days is not None:
            return await eb.statistics.trend_of_job(uid, days)
        return await eb.statistics.of_job(uid)

    found = with_app(work, data_dir)
    if isinstance(found, list):
        tell_days(found, output)
        return
    # Loaded here: it takes a while, and the other commands need none of it.
    from evenbeat.api.v1.wire.statistics import JobStatsOut

    facts = JobStatsOut.from_core(found).model_dump(mode="json")
    if output is show.Format.JSON:
        show.json(facts)
        return
    letters = facts.pop("dead_letters")
    rows = [(name.replace("_", " "), value) for name, value in facts.items()]
    rows += [
        ("dead letters", letters["total"]),
        ("dead letters not acknowledged", letters["unacknowledged"]),
    ]
    show.rows(("what", "value"), rows, output)


def tell_days(trend: list[Day], output: show.Format) -> None:
    show.rows(DAY_COLUMNS, [row_of(day) for day in trend], output)


def as_object(overview: Overview) -> dict[str, Any]:
    return {
        "activity": {word.value: count for word, count in overview.activity.items()},
        "jobs": {state.value: count for state, count in overview.jobs.items()},
        "runs": told(overview.runs),
        "dead_letters": {
            "total": overview.dead_letters,
            "unacknowledged": overview.open_dead_letters,
        },
        "at": overview.at,
    }


def told(runs: RunCounts) -> dict[str, Any]:
    counts = asdict(runs)
    del counts["time_spent"]
    return counts | {"success_rate": percent(runs), "average_duration": average(runs)}


def row_of(day: Day) -> list[Any]:
    known = told(day.runs) | {"day": day.day.isoformat(), "retried": day.retried}
    return [known[column] for column in DAY_COLUMNS]


def percent(runs: RunCounts) -> str | None:
    return None if runs.success_rate is None else f"{runs.success_rate:.1%}"


def average(runs: RunCounts) -> str | None:
    took = runs.average_duration
    return None if took is None else f"{took.total_seconds():.3f}s"
