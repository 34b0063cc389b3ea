"""`evenbeat schedule`: what a schedule means, for people to play with."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from evenbeat.cli.shell import printing
from evenbeat.core.errors import InvalidInput
from evenbeat.core.time.durations import describe_duration, format_duration
from evenbeat.core.time.preview import SchedulePreview, preview_timetable
from evenbeat.core.time.schedules import Schedule, parse_schedule
from evenbeat.core.time.schedules.base.instants import check_instant
from evenbeat.core.time.schedules.base.zones import check_zone
from evenbeat.core.time.timetable import Timetable


def schedule(
    text: Annotated[str, typer.Argument(help='As in "every 30m" or "0 8 * * MON-FRI".')],
    tz: Annotated[str | None, typer.Option(help="Time zone, as in Europe/Berlin.")] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=1000, help="So many beats.")
    ] = 10,
    name: Annotated[
        str | None, typer.Option(help="The job's name, which chooses the values of H.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Beats after this instant, instead of now.")
    ] = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Say in words what a schedule means, and list its next beats.

    Example: evenbeat schedule "0 8 * * MON-FRI" --tz Europe/Berlin -n 5
    """
    start = datetime.now(UTC) if since is None else read_instant(since)
    rule = read(text, tz)
    found = preview_timetable(Timetable(rule.seeded(name) if name else rule), start, count)
    if tz and "zone" not in rule.allows:
        found = replace(found, zone=check_zone(tz, "--tz"))
    if output is printing.Format.JSON:
        # Loaded here: it takes longer than everything else, and the table needs none of it.
        from evenbeat.api.v1.jobs.wire.schedule import PreviewOut

        printing.print_model(PreviewOut.from_core(found))
    else:
        print_schedule(found, start)


def read(text: str, tz: str | None) -> Schedule:
    """The schedule, in the zone if it has one; an interval has none, and is only shown there."""
    if tz is None:
        return parse_schedule(text)
    with suppress(InvalidInput):
        rule = parse_schedule(text)
        if "zone" not in rule.allows:
            return rule
    return parse_schedule(f"{text} zone={tz}")


def read_instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput("--from", "write an instant as in 2026-12-01T08:00:00Z") from None
    return check_instant(instant.replace(tzinfo=instant.tzinfo or UTC), "--from")


def rounded(period: timedelta) -> timedelta:
    """To the second: an average of 4 hours 17 minutes 8.571429 seconds says no more than that."""
    return timedelta(seconds=max(round(period.total_seconds()), 1))


def print_schedule(found: SchedulePreview, start: datetime) -> None:
    typer.echo(f"{found.words[:1].upper()}{found.words[1:]}")
    # The other kinds say how often in their words.
    if found.kind == "cron" and found.effective_period is not None:
        typer.echo(f"On average every {describe_duration(rounded(found.effective_period))}")
    typer.echo()
    zone, previous, rows = ZoneInfo(found.zone), start, list[tuple[str, ...]]()
    for beat in found.beats:
        local = beat.astimezone(zone)
        gap = format_duration(beat - previous) if rows else ""
        rows.append(
            (local.strftime("%a %Y-%m-%d %H:%M:%S %Z (%z)"), beat.strftime("%H:%M:%SZ"), gap)
        )
        previous = beat
    if rows:
        printing.print_table(("beat", "in UTC", "after"), rows)
    else:
        typer.echo("No beat is left.")
    if found.remark:
        typer.echo(f"\n{found.remark}")
