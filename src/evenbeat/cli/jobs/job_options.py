"""Jobs as people write them on a command line: the same object as the API takes, by its code."""

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

# The options that say when, and the schedules they stand for.
WHEN = {"every": "every", "cron": "cron", "daily": "daily", "weekly": "weekly", "at": "once"}
WITH_ZONE = ("cron", "daily", "weekly")
# The options that are fields of a job, as they are.
AS_GIVEN = ("kind", "group", "max_attempts", "timeout", "priority", "catch_up", "runs_on")


@dataclass(frozen=True, slots=True)
class JobFieldOptions:
    """What may be said of a job by options, or by a file."""

    kind: Annotated[str | None, typer.Option(help="Which handler runs it, as in http or echo.")] = (
        None
    )
    schedule: Annotated[
        str | None, typer.Option(help='When, in words: "every 30m" or "0 8 * * MON-FRI".')
    ] = None
    every: Annotated[str | None, typer.Option(help="Again after so long, as in 30m or 1h30m.")] = (
        None
    )
    cron: Annotated[
        str | None, typer.Option(help='By a cron expression, as in "0 8 * * MON-FRI".')
    ] = None
    daily: Annotated[str | None, typer.Option(help="Every day at this time, as in 06:00.")] = None
    weekly: Annotated[str | None, typer.Option(help='Every week then, as in "sun 02:00".')] = None
    at: Annotated[str | None, typer.Option(help="Once, as in 2026-12-01T08:00:00Z.")] = None
    tz: Annotated[
        str | None,
        typer.Option("--tz", help="Zone of --cron, --daily or --weekly, as in Europe/Berlin."),
    ] = None
    payload: Annotated[
        str | None,
        typer.Option(help="What the handler gets: JSON, @FILE, or - for standard input."),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(help="A label, as in team=search, or a tag; give it again for more."),
    ] = None
    group: Annotated[str | None, typer.Option(help="Jobs of one group share its limits.")] = None
    max_attempts: Annotated[int | None, typer.Option(help="How often a beat is tried at most.")] = (
        None
    )
    timeout: Annotated[str | None, typer.Option(help="How long a run may take, as in 5m.")] = None
    priority: Annotated[int | None, typer.Option(help="0 to 100; the higher goes first.")] = None
    catch_up: Annotated[
        str | None,
        typer.Option(help="Beats that nobody was there to run: latest, all or none."),
    ] = None
    runs_on: Annotated[
        list[str] | None,
        typer.Option(help="Only on nodes with this label; give it again for more."),
    ] = None
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", help="JSON as the API takes it, or - for standard input."),
    ] = None

    def object(self, name: str | None) -> dict[str, Any]:
        """The fields that were given as options; what was left out is left out here too."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        said = {key: value for key, value in given.items() if value not in (None, [])}
        job = {key: said[key] for key in AS_GIVEN if key in said}
        if name is not None:
            job["name"] = name
        schedule = schedule_of(said)
        if schedule is not None:
            job["schedule"] = schedule
        if "payload" in said:
            job["payload"] = read_json(said["payload"], "--payload")
        if "label" in said:
            labels = read_labels(said["label"])
            job["labels"] = {key: value for key, value in labels.items() if value}
            job["tags"] = [key for key, value in labels.items() if not value]
        return job

    def read_file(self) -> Any:
        """What the file says; nothing, where there is none."""
        return {} if self.file is None else read_file(self.file, "--file")


def schedule_of(said: dict[str, Any]) -> str | dict[str, Any] | None:
    ways = [name for name in ("schedule", *WHEN) if name in said]
    if len(ways) > 1:
        options = " and ".join(f"--{name}" for name in ways)
        raise typer.BadParameter(f"{options} both say when: give one of them")
    zone = said.get("tz")
    if zone is not None and not (ways and ways[0] in WITH_ZONE):
        raise typer.BadParameter("goes with --cron, --daily or --weekly", param_hint="--tz")
    if not ways:
        return None
    [way] = ways
    if way == "schedule":
        return said[way]
    return {WHEN[way]: said[way]} | ({} if zone is None else {"zone": zone})


def read_json(text: str, option: str) -> Any:
    """JSON as it stands, of `@file`, or of standard input."""
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
    """What the API's code finds wrong, as an error of ours."""
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
