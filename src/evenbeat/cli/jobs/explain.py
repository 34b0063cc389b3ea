"""`evenbeat explain`: why a job is not running, in one or two sentences."""

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.jobs import job_selection
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import with_app
from evenbeat.cli.shell.options import DataDir
from evenbeat.core.jobs.model import Job


def explain(
    job: job_selection.JobArgument,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Explain why a job is not running, when it will run, or why it is late.

    Example: evenbeat explain report
    """

    async def work(eb: Evenbeat) -> tuple[Job, str]:
        found = await eb.jobs.find(job)
        return found, await eb.jobs.explain(found.uid)

    found, explanation = with_app(work, data_dir)
    if output is printing.Format.JSON:
        printing.print_json(
            {"id": found.uid, "state": found.pulse.state, "explanation": explanation}
        )
    else:
        typer.echo(explanation)
