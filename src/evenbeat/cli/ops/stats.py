"""`evenbeat stats`: counts of jobs and runs, for all, a job, a kind or a group, or by day."""

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.jobs import job_selection
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import with_app, with_app_and_time
from evenbeat.cli.shell.completion import complete_jobs
from evenbeat.cli.shell.options import DataDir
from evenbeat.core.limits import MOST_DAYS_SHOWN
from evenbeat.core.ops.statistics import (
    DayStatistics,
    JobStatistics,
    Overview,
    RunCounts,
    StatisticsScope,
)

DAY_COLUMNS = (
    *("day", "completed", "failed", "cancelled", "skipped", "retried"),
    *("success_rate", "average_duration"),
)


def stats(
    job: Annotated[
        str | None,
        typer.Option(help="Only of this job, by name or id.", autocompletion=complete_jobs),
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Of jobs of this kind.")] = None,
    group: Annotated[str | None, typer.Option(help="Of jobs of this group.")] = None,
    days: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_DAYS_SHOWN, help="By day (UTC), for this many days up to today."
        ),
    ] = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Show counts of jobs and runs, for all jobs, one job, a kind or a group.

    Jobs by state, runs by outcome, the success rate, durations and dead letters. By day, one-off
    jobs are counted only by kind and group.

    Example: evenbeat stats --job report --days 7
    """
    if job is not None and (kind is not None or group is not None):
        raise typer.BadParameter("cannot be used with --kind or --group", param_hint="--job")
    scope = StatisticsScope(kind=kind, group=group)
    if days is not None:
        print_trend(with_app(lambda eb: find_trend(eb, days, job, scope), data_dir), output)
    elif job is None:
        print_overview(with_app(lambda eb: eb.statistics.of_all(scope), data_dir), output)
    else:
        print_job_statistics(
            *with_app_and_time(lambda eb: find_job_statistics(eb, job), data_dir), output
        )


async def find_trend(
    eb: Evenbeat, days: int, job: str | None, scope: StatisticsScope
) -> list[DayStatistics]:
    if job is None:
        return await eb.statistics.trend(days, scope)
    return await eb.statistics.trend_of_job(await job_selection.find_job_uid(eb, job), days)


async def find_job_statistics(eb: Evenbeat, job: str) -> JobStatistics:
    return await eb.statistics.of_job((await eb.jobs.find(job)).uid)


def print_trend(found: list[DayStatistics], output: printing.Format) -> None:
    if output is printing.Format.JSON:
        from evenbeat.api.v1.ops.wire.statistics import TrendOut

        printing.print_model(TrendOut.from_core(found))
    else:
        printing.print_table(DAY_COLUMNS, [day_row(day) for day in found])


def print_overview(overview: Overview, output: printing.Format) -> None:
    if output is printing.Format.JSON:
        from evenbeat.api.v1.ops.wire.statistics import StatsOut

        printing.print_model(StatsOut.from_core(overview))
        return
    rows = [
        *((f"jobs {word}", count) for word, count in overview.activity.items()),
        *((f"jobs {state}", count) for state, count in sorted(overview.jobs.items())),
        *((f"runs {name}", value) for name, value in run_count_fields(overview.runs).items()),
        ("dead letters", overview.dead_letters),
        ("dead letters not acknowledged", overview.open_dead_letters),
    ]
    printing.print_table(("what", "value"), rows)


def print_job_statistics(statistics: JobStatistics, now: datetime, output: printing.Format) -> None:
    if output is printing.Format.JSON:
        from evenbeat.api.v1.ops.wire.statistics import JobStatsOut

        printing.print_model(JobStatsOut.from_core(statistics))
        return
    durations = statistics.durations
    rows = [
        ("runs", statistics.total),
        ("runs completed", statistics.completed),
        ("runs failed", statistics.failed),
        ("runs cancelled", statistics.cancelled),
        ("success rate", percent(statistics.success_rate)),
        ("average duration", seconds(durations and durations.average)),
        ("half took at most", seconds(durations and durations.p50)),
        ("95 % took at most", seconds(durations and durations.p95)),
        ("99 % took at most", seconds(durations and durations.p99)),
        ("longest", seconds(durations and durations.longest)),
        ("last run", printing.format_moment(statistics.last_run_at, now)),
        ("next run", printing.format_moment(statistics.next_run_at, now)),
        ("dead letters", statistics.dead_letters),
        ("dead letters not acknowledged", statistics.open_dead_letters),
    ]
    printing.print_table(("what", "value"), rows)


def run_count_fields(runs: RunCounts) -> dict[str, Any]:
    counts = asdict(runs)
    del counts["time_spent"]
    average = seconds(runs.average_duration)
    return counts | {"success_rate": percent(runs.success_rate), "average_duration": average}


def day_row(day: DayStatistics) -> list[Any]:
    known = run_count_fields(day.runs) | {"day": day.day.isoformat(), "retried": day.retried}
    return [known[column] for column in DAY_COLUMNS]


def percent(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:.1%}"


def seconds(duration: timedelta | None) -> str | None:
    return None if duration is None else f"{duration.total_seconds():.3f}s"
