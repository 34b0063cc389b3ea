"""Options that many commands have."""

from typing import Annotated

import typer

DataDir = Annotated[str | None, typer.Option(help="Home of the embedded server.")]
