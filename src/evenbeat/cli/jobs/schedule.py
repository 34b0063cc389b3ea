"""`evenbeat schedule`: explains a schedule and lists its beats."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from evenbeat.cli.shell import printing
from evenbeat.core.errors import InvalidInput
from evenbeat.core.limits import LARGEST_LISTING
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
        int, typer.Option("--count", "-n", min=1, max=LARGEST_LISTING, help="How many beats.")
    ] = 10,
    name: Annotated[
        str | None, typer.Option(help="The job's name, which chooses the values of H.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Beats after this instant, instead of now.")
    ] = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Describe a schedule in words, and list its next beats.

    Example: evenbeat schedule "0 8 * * MON-FRI" --tz Europe/Berlin -n 5
    """
    start = datetime.now(UTC) if since is None else read_instant(since)
    rule = parse_in_zone(text, tz)
    found = preview_timetable(Timetable(rule.seeded(name) if name else rule), start, count)
    if tz and "zone" not in rule.allows:
        found = replace(found, zone=check_zone(tz, "--tz"))
    if output is printing.Format.JSON:
        # Imported here: the wire models take longer to load than all else, and a table needs none.
        from evenbeat.api.v1.jobs.wire.schedule import PreviewOut

        printing.print_model(PreviewOut.from_core(found))
    else:
        print_schedule(found, start)


def parse_in_zone(text: str, tz: str | None) -> Schedule:
    """The schedule in this zone. An interval has no zone: its beats are only shown in it."""
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
    """Rounded to seconds: the fraction in 4 hours 17 minutes 8.571429 seconds."""
    return timedelta(seconds=max(round(period.total_seconds()), 1))


def print_schedule(found: SchedulePreview, start: datetime) -> None:
    typer.echo(f"{found.words[:1].upper()}{found.words[1:]}")
    # The words for other kinds of schedules say how often they beat.
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
