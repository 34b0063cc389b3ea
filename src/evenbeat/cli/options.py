"""Options that many commands have."""

from typing import Annotated

import typer

DataDir = Annotated[str | None, typer.Option(help="Home of the embedded server.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
