"""How commands show things: tables for people, JSON for programs."""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from evenbeat.config import Settings
from evenbeat.core.durations import format_duration

LONGEST_LINE = 1_000


class Format(StrEnum):
    """Whom the output is for."""

    TABLE = "table"
    JSON = "json"


Output = Annotated[Format, typer.Option("--output", "-o", help="table or json")]


def json(value: object) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2, default=plain).decode())


def rows(names: Sequence[str], values: Sequence[Sequence[Any]], output: Format) -> None:
    if output is Format.JSON:
        json([dict(zip(names, row, strict=True)) for row in values])
        return
    table = Table(*names, box=None, pad_edge=False, header_style="bold")
    for row in values:
        table.add_row(*(plain(cell) for cell in row))
    # One line a row where programs read it: only a terminal has an edge to fold at.
    console = Console()
    (console if console.is_terminal else Console(width=LONGEST_LINE)).print(table)


def settings(settings: Settings, output: Format) -> None:
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
    rows(names, values, output)


def plain(value: object) -> str:
    match value:
        case None | ():
            return "-"
        case SecretStr():
            return "(secret)"
        case timedelta():
            return format_duration(value)
        case _:
            return str(value)
