"""`evenbeat balance`: show how even the load is, preview a rebalance, apply it, undo it."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import cli_actor, with_app
from evenbeat.cli.shell.chart import Bar, draw
from evenbeat.cli.shell.options import DataDir, Yes
from evenbeat.control.balance.balance import (
    EXPECTED,
    BalanceView,
    Forecast,
    HypotheticalJobs,
    RebalancePreview,
    RebalanceResult,
)
from evenbeat.core.balance.model import SLOT_S, HourLoad, SlotForecast
from evenbeat.core.balance.plan_records import StoredPlan
from evenbeat.core.limits import MOST_HYPOTHETICAL_JOBS
from evenbeat.core.time.durations import format_duration, parse_duration
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable

app = typer.Typer(
    help="Show how even the load is; preview, apply and undo a rebalance.",
    no_args_is_help=True,
)

GroupOption = Annotated[str | None, typer.Option(help="Only the jobs of this group.")]
MaxMoves = Annotated[int | None, typer.Option(min=0, help="Move at most this many jobs.")]
# A week of slots does not fit a screen: one bar stands for this many hours.
FORECAST_STEP = timedelta(hours=4)
MOST_SHOWN = 20


@app.command("show")
def show_distribution(
    group: GroupOption = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Show the load of the next 24 hours, how even it is, and what would improve it.

    Example: evenbeat balance show --group site
    """
    view = with_app(lambda eb: eb.balance.view(group=group), data_dir)
    if output is printing.Format.JSON:
        from evenbeat.api.v1.balance.wire.balance import DistributionOut

        printing.print_model(DistributionOut.from_core(view))
    else:
        print_distribution(view)


@app.command()
def preview(
    group: GroupOption = None,
    max_moves: MaxMoves = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Show what a rebalance would do, without moving any job.

    Example: evenbeat balance preview --max-moves 10
    """
    found = with_app(
        lambda eb: eb.balance.preview(group=group, max_moves=max_moves, by=cli_actor()), data_dir
    )
    if output is printing.Format.JSON:
        from evenbeat.api.v1.balance.wire.balance import RebalancePreviewOut

        printing.print_model(RebalancePreviewOut.from_core(found))
        return
    print_preview(found)
    if found.plan.moves:
        typer.echo(
            f"\nApply it within five minutes: evenbeat balance apply {found.plan.summary.id}"
        )


@app.command()
def apply(
    plan_id: Annotated[
        UUID | None,
        typer.Argument(
            help="The plan's id, as `evenbeat balance preview` shows it.", metavar="PLAN"
        ),
    ] = None,
    group: GroupOption = None,
    max_moves: MaxMoves = None,
    yes: Yes = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Apply a plan as it was shown; without a plan, make one and ask.

    Exit code 1 if jobs have changed since the plan was made, or if the answer is no.

    Example: evenbeat balance apply --max-moves 10
    """
    if plan_id is not None and (group is not None or max_moves is not None):
        raise typer.BadParameter(
            "a plan has its own group and limit: leave out --group and --max-moves"
        )

    async def find_plan(eb: Evenbeat) -> StoredPlan:
        if plan_id is not None:
            return await eb.balance.plan(plan_id)
        return (await eb.balance.preview(group=group, max_moves=max_moves, by=cli_actor())).plan

    planned = with_app(find_plan, data_dir)
    if not yes and planned.moves:
        typer.echo(plan_in_words(planned), err=True)
        typer.confirm("Apply it?", abort=True, err=True)
    applied = with_app(lambda eb: eb.balance.apply(planned.summary.id, by=cli_actor()), data_dir)
    print_result(applied, output)


@app.command()
def undo(
    yes: Yes = False, data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE
) -> None:
    """Undo the last rebalance: its jobs get their old phases back.

    Example: evenbeat balance undo
    """
    last = with_app(lambda eb: eb.balance.last_applied(), data_dir)
    if not yes:
        when = f"{last.applied_at:%Y-%m-%d %H:%M} UTC by {last.applied_by}"
        typer.echo(f"The last rebalance moved {count_jobs(last.move_count)}, {when}.", err=True)
        typer.confirm("Take it back?", abort=True, err=True)
    print_result(with_app(lambda eb: eb.balance.undo(last.id, by=cli_actor()), data_dir), output)


@app.command()
def forecast(
    workers: Annotated[int | None, typer.Option(min=1, help="Assume this many workers.")] = None,
    add: Annotated[
        str | None, typer.Option(help='Assume more jobs with this schedule, as in "every 30m".')
    ] = None,
    number: Annotated[
        int,
        typer.Option("--count", min=1, max=MOST_HYPOTHETICAL_JOBS, help="How many of these jobs."),
    ] = 1,
    takes: Annotated[
        str, typer.Option(help="How long a run of these jobs takes, as in 20s.")
    ] = "1s",
    group: GroupOption = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Show the load of the coming week, also with more jobs or fewer workers than there are.

    Example: evenbeat balance forecast --add "every 30m" --count 100 --takes 20s
    """
    more = (
        []
        if add is None
        else [HypotheticalJobs(Timetable(parse_schedule(add)), number, expected(takes))]
    )
    found = with_app(
        lambda eb: eb.balance.forecast(group=group, workers=workers, added=more), data_dir
    )
    if output is printing.Format.JSON:
        from evenbeat.api.v1.balance.wire.forecast import ForecastOut

        printing.print_model(ForecastOut.from_core(found))
    else:
        print_forecast(found)


def expected(text: str) -> timedelta:
    return parse_duration(text, "--takes", EXPECTED)


def count_jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def print_distribution(view: BalanceView) -> None:
    found = view.distribution
    draw([bar_of(hour, is_marked=hour.hour == found.peak_hour) for hour in found.hours])
    score = found.score
    of = f" in group {view.group}" if view.group else ""
    typer.echo(
        f"\n{count_jobs(found.total_jobs)}{of}; score {score.score:.2f}, by minutes "
        f"{score.minute_score:.2f}; the fullest slot is {score.peak_over_ideal:.2f} times as full "
        f"as it must be. Balancing is {view.balancing}."
    )
    typer.echo(view.suggestion)


def bar_of(hour: HourLoad, *, is_marked: bool = False) -> Bar:
    remark = f"{hour.runs:,} run{'' if hour.runs == 1 else 's'} of {count_jobs(hour.job_count)}"
    return Bar(f"{hour.starts_at:%a %H:%M}", hour.runs, remark, is_marked)


def plan_in_words(plan: StoredPlan) -> str:
    summary = plan.summary
    return (
        f"Moves {count_jobs(summary.move_count)}, leaves {count_jobs(summary.skip_count)} alone: "
        f"score {summary.before.score:.2f} to {summary.after.score:.2f}, the fullest slot "
        f"{summary.before.peak:,} to {summary.after.peak:,} runs."
    )


def print_preview(found: RebalancePreview) -> None:
    if not found.plan.moves:
        typer.echo("There is nothing to gain by moving jobs.")
    else:
        draw([bar_of(hour) for hour in found.projected.hours])
        typer.echo(f"\n{plan_in_words(found.plan)}")
        rows = [
            (found.plan.uids[move.job], move.old_next_at, move.new_next_at)
            for move in found.plan.moves[:MOST_SHOWN]
        ]
        printing.print_table(("job", "instead of", "runs at"), rows)
        if len(found.plan.moves) > MOST_SHOWN:
            typer.echo(f"… and {len(found.plan.moves) - MOST_SHOWN:,} more: -o json has them all.")
    reasons = Counter(str(each.reason) for each in found.plan.skipped)
    for reason, count in sorted(reasons.items()):
        typer.echo(f"{count_jobs(count)} stay{'s'[: count == 1]}: {reason}")


def print_result(applied: RebalanceResult, output: printing.Format) -> None:
    if output is printing.Format.JSON:
        from evenbeat.api.v1.balance.wire.balance import RebalanceOut

        printing.print_model(RebalanceOut.from_core(applied))
        return
    plan = applied.plan
    typer.echo(
        f"Moved {count_jobs(len(plan.moves))}, left {count_jobs(len(plan.skipped))} alone: score "
        f"{plan.summary.before.score:.2f} to {applied.score.score:.2f}."
    )


def print_forecast(found: Forecast) -> None:
    step = FORECAST_STEP // timedelta(seconds=SLOT_S)
    parts = [found.slots[at : at + step] for at in range(0, len(found.slots), step)]
    peaks = [max(slot.peak_concurrency for slot in part) for part in parts]
    draw(
        [
            Bar(
                f"{part[0].starts_at:%a %d %H:%M}",
                peak,
                outlook_in_words(part, peak),
                is_marked=peak == max(peaks),
            )
            for part, peak in zip(parts, peaks, strict=True)
        ]
    )
    more = f", {found.added_count:,} of them added" if found.added_count else ""
    typer.echo(f"\n{count_jobs(found.job_count)}{more}; at most {max(peaks):.1f} runs at once.")


def outlook_in_words(part: Sequence[SlotForecast], peak: float) -> str:
    waiting = max(slot.waiting for slot in part)
    late = f", up to {format_duration(waiting)} late" if waiting else ""
    return f"{sum(slot.runs for slot in part):,} runs, {peak:.1f} at once{late}"
