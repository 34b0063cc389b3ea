"""Options that many commands share."""

from dataclasses import dataclass
from typing import Annotated

import typer

from evenbeat.core.limits import LARGEST_LISTING

DataDir = Annotated[
    str | None, typer.Option(help="Directory of the embedded server, as the setting data_dir.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Limit = Annotated[int, typer.Option(min=1, max=LARGEST_LISTING, help="At most this many.")]


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Which page of a list."""

    limit: Limit = 50
    offset: Annotated[
        int, typer.Option(min=0, help="Leave out this many from the beginning: the next page.")
    ] = 0

    def print_rest(self, shown: int, total: int) -> None:
        """Say how many more there are."""
        last = self.offset + shown
        if last < total:
            typer.echo(
                f"{total - last:,} more: continue with --offset {last}, or use a larger --limit",
                err=True,
            )


@dataclass(frozen=True, slots=True)
class ConsentOptions:
    """What a command may do without asking."""

    dry_run: DryRun = False
    skip_refused: Annotated[
        bool,
        typer.Option("--skip-refused", help="Leave out those that do not allow the action now."),
    ] = False
    yes: Yes = False
