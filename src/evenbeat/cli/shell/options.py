"""Options that many commands have."""

from dataclasses import dataclass
from typing import Annotated

import typer

from evenbeat.core.limits import LARGEST_LISTING

DataDir = Annotated[
    str | None, typer.Option(help="Home of the embedded server, as the setting of this name.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Limit = Annotated[int, typer.Option(min=1, max=LARGEST_LISTING, help="At most so many.")]


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Which part of a list."""

    limit: Limit = 50
    offset: Annotated[
        int, typer.Option(min=0, help="Leave out the first so many: the next page.")
    ] = 0

    def print_rest(self, shown: int, total: int) -> None:
        """Nobody takes a page for all there is."""
        last = self.offset + shown
        if last < total:
            typer.echo(
                f"{total - last:,} more: go on with --offset {last}, or take a larger --limit",
                err=True,
            )


@dataclass(frozen=True, slots=True)
class ConsentOptions:
    """How far a command may go."""

    dry_run: DryRun = False
    skip_refused: Annotated[
        bool, typer.Option("--skip-refused", help="Leave out those that do not allow it now.")
    ] = False
    yes: Yes = False
