"""`evenbeat explain`: why a job is not running, in a sentence or two."""

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli import chosen, show
from evenbeat.cli.opened import with_app
from evenbeat.cli.options import DataDir
from evenbeat.core.model import Job


def explain(
    job: chosen.Job, data_dir: DataDir = None, output: show.Output = show.Format.TABLE
) -> None:
    """Say why a job is not running, when it will, or why it is late.

    Example: evenbeat explain report
    """

    async def work(eb: Evenbeat) -> tuple[Job, str]:
        found = await eb.jobs.find(job)
        return found, await eb.jobs.explain(found.uid)

    found, explanation = with_app(work, data_dir)
    if output is show.Format.JSON:
        show.json({"id": found.uid, "state": found.pulse.state, "explanation": explanation})
    else:
        typer.echo(explanation)
