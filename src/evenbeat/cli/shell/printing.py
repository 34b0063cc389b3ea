"""The output of commands: tables for people, JSON for programs."""

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer
from pydantic import BaseModel, SecretStr
from rich.console import Console
from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from evenbeat.config import Settings
from evenbeat.core.time.durations import format_duration, round_for_people

LONGEST_LINE = 1_000
REFUSED = "Nothing was done, since some refused: --skip-refused leaves them out."


class Format(StrEnum):
    """The format of the output."""

    TABLE = "table"
    JSON = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="table or json")]


def print_json(value: object) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=format_value).decode())


def print_model(shown: BaseModel, **more: Any) -> None:
    """The response of the REST API, with more fields."""
    print_json(shown.model_dump(mode="json") | more)


def format_json(value: object) -> str:
    """JSON on one line, for a cell."""
    return orjson.dumps(value).decode()


def print_table(
    names: Sequence[str], values: Sequence[Sequence[Any]], output: Format = Format.TABLE
) -> None:
    if output is Format.JSON:
        print_json([dict(zip(names, row, strict=True)) for row in values])
        return
    table = Table(*names, box=None, pad_edge=False, header_style="bold")
    for row in values:
        # As Text: rich would take brackets in a plain string for markup.
        table.add_row(*(Text(format_value(cell)) for cell in row))
    # Rows are folded only at the edge of a terminal: a program gets one line for each row.
    console = Console()
    (console if console.is_terminal else Console(width=LONGEST_LINE)).print(table)


def print_fields(values: Mapping[str, Any]) -> None:
    """Print one thing, a line for each field; empty fields are left out."""
    known = {name: value for name, value in values.items() if value not in (None, (), [], {}, "")}
    width = max(map(len, known), default=0)
    for name, value in known.items():
        typer.echo(f"{name:{width}}  {format_value(value)}")


def format_instant(at: datetime | None) -> str | None:
    return None if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def format_moment(at: datetime | None, now: datetime) -> str | None:
    """The exact instant, and how long ago or how far ahead it is."""
    if at is None:
        return None
    away = round_for_people(abs(at - now))
    if not away:
        return f"{format_instant(at)} (now)"
    length = format_duration(away)
    return f"{format_instant(at)} ({f'in {length}' if at > now else f'{length} ago'})"


def format_count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s'[: number != 1]}"


@contextlib.contextmanager
def show_progress(
    what: str, *, counts_bytes: bool = False
) -> Generator[Callable[[str, int], None]]:
    """Show progress on standard error, if that is a terminal.

    Call the yielded function with the name of the present part and how much more was done.
    """
    amount = DownloadColumn() if counts_bytes else TextColumn("{task.completed:,}")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), amount, TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)

        def advance(part: str, count: int) -> None:
            bar.update(task, description=f"{what} {part}".strip(), advance=count)

        yield advance


def print_settings(settings: Settings, output: Format) -> None:
    names = ("setting", "value", "from", "meaning")
    values = [
        (
            name,
            getattr(settings, name),
            origin,
            type(settings).model_fields[name].description,
        )
        for name, origin in settings.origins.items()
    ]
    print_table(names, values, output)


def format_value(value: object) -> str:
    match value:
        case None | ():
            return "-"
        case SecretStr():
            return "(secret)"
        case timedelta():
            return format_duration(value)
        case _:
            return str(value)
