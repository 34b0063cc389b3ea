"""The fields of a job as options or as a file; the wire models of the API check them."""

import contextlib
import sys
from collections.abc import Generator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from evenbeat.cli.jobs.job_selection import read_labels
from evenbeat.core.errors import FieldError, InvalidInput
from evenbeat.core.jobs.payload import parse_json
from evenbeat.web.problems import field_error

# Options that name a schedule, and the kind of schedule each stands for.
SCHEDULE_OPTIONS = {
    "every": "every",
    "cron": "cron",
    "daily": "daily",
    "weekly": "weekly",
    "at": "once",
}
WITH_ZONE = ("cron", "daily", "weekly")
# Options that are fields of a job under the same name.
PLAIN_FIELDS = ("kind", "group", "max_attempts", "timeout", "priority", "catch_up", "runs_on")


@dataclass(frozen=True, slots=True)
class JobFieldOptions:
    """The fields of a job that options may set, and a file with more of them."""

    kind: Annotated[
        str | None, typer.Option(help="The handler that runs it, as in http or echo.")
    ] = None
    schedule: Annotated[
        str | None, typer.Option(help='A schedule as text: "every 30m" or "0 8 * * MON-FRI".')
    ] = None
    every: Annotated[str | None, typer.Option(help="At this interval, as in 30m or 1h30m.")] = None
    cron: Annotated[
        str | None, typer.Option(help='By a cron expression, as in "0 8 * * MON-FRI".')
    ] = None
    daily: Annotated[str | None, typer.Option(help="Every day at this time, as in 06:00.")] = None
    weekly: Annotated[
        str | None, typer.Option(help='Every week at this time, as in "sun 02:00".')
    ] = None
    at: Annotated[
        str | None, typer.Option(help="Once, at this instant, as in 2026-12-01T08:00:00Z.")
    ] = None
    tz: Annotated[
        str | None,
        typer.Option("--tz", help="Zone of --cron, --daily or --weekly, as in Europe/Berlin."),
    ] = None
    payload: Annotated[
        str | None,
        typer.Option(help="Input of the handler: JSON, @FILE, or - for standard input."),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(help="A label, as in team=search, or a tag; may be repeated."),
    ] = None
    group: Annotated[str | None, typer.Option(help="Jobs of one group share its limits.")] = None
    max_attempts: Annotated[
        int | None, typer.Option(help="How many attempts a beat has at most.")
    ] = None
    timeout: Annotated[str | None, typer.Option(help="How long a run may take, as in 5m.")] = None
    priority: Annotated[
        int | None, typer.Option(help="0 to 100; a higher priority runs first.")
    ] = None
    catch_up: Annotated[
        str | None,
        typer.Option(
            help="Which beats run that were missed while no node was running: latest, all or none."
        ),
    ] = None
    runs_on: Annotated[
        list[str] | None,
        typer.Option(help="Only on nodes with this label; may be repeated."),
    ] = None
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", help="A file with the JSON that the API takes; - is standard input."
        ),
    ] = None

    def object(self, name: str | None) -> dict[str, Any]:
        """The fields that were given as options; a field that was not given is left out."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        given = {key: value for key, value in values.items() if value not in (None, [])}
        job = {key: given[key] for key in PLAIN_FIELDS if key in given}
        if name is not None:
            job["name"] = name
        schedule = schedule_of(given)
        if schedule is not None:
            job["schedule"] = schedule
        if "payload" in given:
            job["payload"] = read_json(given["payload"], "--payload")
        if "label" in given:
            labels = read_labels(given["label"])
            job["labels"] = {key: value for key, value in labels.items() if value}
            job["tags"] = [key for key, value in labels.items() if not value]
        return job

    def read_file(self) -> Any:
        """The content of the file; an empty object without --file."""
        return {} if self.file is None else read_file(self.file, "--file")


def schedule_of(given: dict[str, Any]) -> str | dict[str, Any] | None:
    options = [name for name in ("schedule", *SCHEDULE_OPTIONS) if name in given]
    if len(options) > 1:
        names = " and ".join(f"--{name}" for name in options)
        raise typer.BadParameter(f"{names} are both schedules: give one of them")
    zone = given.get("tz")
    if zone is not None and not (options and options[0] in WITH_ZONE):
        raise typer.BadParameter(
            "can be used only with --cron, --daily or --weekly", param_hint="--tz"
        )
    if not options:
        return None
    [option] = options
    if option == "schedule":
        return given[option]
    return {SCHEDULE_OPTIONS[option]: given[option]} | ({} if zone is None else {"zone": zone})


def read_json(text: str, option: str) -> Any:
    """The JSON in `text`, in the file of `@file`, or on standard input for `-`."""
    if text == "-" or text.startswith("@"):
        return read_file(text.removeprefix("@"), option)
    return parse(text.encode(), option)


def read_file(file: str, option: str) -> Any:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput(option, f"{file} cannot be read: {error.strerror}") from None
    return parse(data, option)


def parse(data: bytes, option: str) -> Any:
    try:
        return parse_json(data)
    except ValueError as error:
        raise InvalidInput(option, f"is not JSON: {error}") from None


def fields_of(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise InvalidInput("--file", "must be a JSON object, the fields of a job")
    return cast("dict[str, Any]", found)


@contextlib.contextmanager
def errors_by_field() -> Generator[None]:
    """Turn validation errors of the wire models into InvalidInput."""
    try:
        yield
    except ValidationError as error:
        faults = [
            field_error({**fault, "loc": ("--file", *fault["loc"])}) for fault in error.errors()
        ]
        raise invalid_options(faults) from None
    except RequestValidationError as error:
        raise invalid_options([field_error(fault) for fault in error.errors()]) from None


def invalid_options(faults: list[FieldError]) -> InvalidInput:
    first, *more = faults
    return InvalidInput(first.field, first.message, more=more)
