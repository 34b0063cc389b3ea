"""Rows of the interval scheduler's own table of jobs, from a dump, as candidates for an import.

The columns that its clients write are read by the model of their requests, so that a row means what
the request meant that made it. The other columns decide whether and in which state it is imported.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import ValidationError

from evenbeat.api.v1.jobs.wire.interval_scheduler_words import find_warnings
from evenbeat.api.v1.jobs.wire.job_in import JobIn
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.imports import ImportCandidate, suggest_interval
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Definition
from evenbeat.core.jobs.payload import parse_json
from evenbeat.core.time.schedules.base.instants import read_datetime
from evenbeat.core.time.schedules.cron import Cron
from evenbeat.core.time.schedules.every import Every
from evenbeat.core.time.schedules.once import Once

TEXTS = ("source_id", "source_name", "url", "type", "interval_type", "schedule_time")
NUMBERS = ("interval_minutes", "max_retries", "retry_backoff_seconds")
OVER = ("completed", "failed", "cancelled")
READ = frozenset(
    (*TEXTS, *NUMBERS, "metadata", "id", "status", "is_paused", "schedule_enabled", "next_run_at")
)
# As PostgreSQL writes null into a CSV, and as people do.
NULLS = ("", r"\N", "NULL", "null")
BOOLEANS = {"t": True, "true": True, "1": True, "f": False, "false": False, "0": False}

Row = Mapping[str, Any]


def read_dump(text: str) -> list[tuple[int, Row]]:
    """The rows with their line numbers, from NDJSON if the text begins with {, else from CSV."""
    if text.lstrip().startswith("{"):
        lines = enumerate(text.split("\n"), 1)
        return [(number, read_object(number, line)) for number, line in lines if line.strip()]
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    if "id" not in (reader.fieldnames or ()):
        raise InvalidInput("file", "has no column id: begin it with the names of its columns")
    try:
        return [(reader.line_num, dict(row)) for row in reader]
    except csv.Error as error:
        raise InvalidInput("file", f"line {reader.line_num + 1} is not CSV: {error}") from None


def read_object(number: int, line: str) -> Row:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise InvalidInput("file", f"line {number} is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise InvalidInput("file", f"line {number} is not an object")
    return cast("Row", row)


def find_ignored_columns(rows: list[tuple[int, Row]]) -> list[str]:
    """The columns of these rows that are not imported."""
    return sorted({str(name) for _, row in rows for name in row} - READ)


def read_candidates(rows: list[tuple[int, Row]], *, prefix: str) -> Iterator[ImportCandidate]:
    for number, row in rows:
        text = f"{row.get('id')} {row.get('url') or row.get('source_name') or ''}".strip()
        try:
            yield read_candidate(number, text, RowReader(row), prefix)
        except InvalidInput as error:
            yield ImportCandidate(number, text, why=str(error))


class RowReader:
    """One row. A CSV has only texts; JSON has typed values."""

    def __init__(self, row: Row) -> None:
        self._row = row

    def text(self, name: str) -> str | None:
        value = self._row.get(name)
        return None if value is None or value in NULLS else str(value)

    def number(self, name: str) -> int | None:
        text = self.text(name)
        try:
            return None if text is None else int(text)
        except ValueError:
            raise InvalidInput(name, f"must be a whole number, not {text!r}") from None

    def boolean(self, name: str) -> bool | None:
        text = self.text(name)
        if text is None:
            return None
        if text.lower() not in BOOLEANS:
            raise InvalidInput(name, f"must be true or false, not {text!r}")
        return BOOLEANS[text.lower()]

    def instant(self, name: str) -> datetime | None:
        text = self.text(name)
        if text is None:
            return None
        # psql writes +00 for +00:00, which Python reads. Without an offset it is UTC.
        instant = read_datetime(text, name)
        return instant.replace(tzinfo=instant.tzinfo or UTC)

    def object(self, name: str) -> dict[str, Any] | None:
        value = self._row.get(name)
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        text = self.text(name)
        try:
            found = None if text is None else parse_json(text)
        except ValueError as error:
            raise InvalidInput(name, f"is not JSON: {error}") from None
        if not isinstance(found, dict | None):
            raise InvalidInput(name, "must be an object")
        return cast("dict[str, Any] | None", found)


def read_candidate(number: int, text: str, row: RowReader, prefix: str) -> ImportCandidate:
    uid = row.text("id")
    if uid is None:
        raise InvalidInput("id", "is missing: it names the job")
    words: dict[str, Any] = {name: row.text(name) for name in TEXTS}
    words |= {name: row.number(name) for name in NUMBERS}
    words["metadata"] = row.object("metadata")
    given = {name: value for name, value in words.items() if value is not None}
    is_recurring = "interval_minutes" in given or "schedule_time" in given
    status = row.text("status")
    if status == "cancelled" or (status in OVER and not is_recurring):
        return ImportCandidate(
            number, text, why=f"is over ({status}): nothing of it is left to run"
        )
    try:
        definition = JobIn.model_validate({**given, "name": f"{prefix}{uid}"}).to_core()
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInput(".".join(map(str, first["loc"])), first["msg"]) from None
    aside, remarks = find_resting_action(row, status, is_recurring=is_recurring)
    definition = keep_next_run(definition, row.instant("next_run_at"))
    schedule = definition.timetable.schedule
    could_be, would_differ = (
        suggest_interval(schedule) if isinstance(schedule, Cron) else (None, None)
    )
    review = (*find_warnings(given), *remarks)
    return ImportCandidate(
        number, text, definition, None, could_be, would_differ, review=review, aside=aside
    )


def find_resting_action(
    row: RowReader, status: str | None, *, is_recurring: bool
) -> tuple[Action | None, list[str]]:
    """The action that puts an imported job into its old state, if any, and remarks about it."""
    if row.boolean("is_paused") or status == "paused":
        return Action.PAUSE, ["was paused, and comes in paused"]
    if is_recurring and row.boolean("schedule_enabled") is False:
        return Action.DISABLE, ["its schedule was switched off, and it comes in disabled"]
    if status == "running":
        return None, ["was running when the dump was made: see how that run ended"]
    if not is_recurring:
        return None, ["runs once, as soon as a node serves it"]
    return None, []


def keep_next_run(definition: Definition, next_at: datetime | None) -> Definition:
    """The same job with the next run that was planned; an interval goes on from there."""
    schedule = definition.timetable.schedule
    if next_at is None or isinstance(schedule, Cron):
        return definition
    moved = schedule.anchored_at(next_at) if isinstance(schedule, Every) else Once(next_at)
    return replace(definition, timetable=replace(definition.timetable, schedule=moved))
