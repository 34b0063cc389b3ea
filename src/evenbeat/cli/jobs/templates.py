"""`evenbeat templates`: jobs with parameters, and jobs made from them."""

from datetime import datetime
from typing import Annotated, Any

import typer

from evenbeat.api.v1.jobs.wire.job_out import JobOut
from evenbeat.api.v1.jobs.wire.template import FillIn, TemplateIn, TemplateOut, TemplatesOut
from evenbeat.app import Evenbeat
from evenbeat.cli.jobs import job_options
from evenbeat.cli.jobs.job_edits import print_added
from evenbeat.cli.shell import printing
from evenbeat.cli.shell.app_session import cli_actor, with_app, with_app_and_time
from evenbeat.cli.shell.options import DataDir, Yes
from evenbeat.cli.shell.user_app import find_app
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import Job
from evenbeat.core.jobs.templates import Template

app = typer.Typer(help="Templates: jobs with parameters, to make jobs from.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The template's name.")]
COLUMNS = ("name", "description", "parameters", "updated_at")


@app.command("list")
def list_templates(
    data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE
) -> None:
    """List all templates by name.

    Example: evenbeat templates list
    """
    found, now = with_app_and_time(lambda eb: eb.templates.all(), data_dir)
    if output is printing.Format.JSON:
        printing.print_model(TemplatesOut.from_core(found))
    else:
        printing.print_table(COLUMNS, [template_row(each, now) for each in found])


@app.command("show")
def show_template(
    name: Name, data_dir: DataDir = None, output: printing.Output = printing.Format.TABLE
) -> None:
    """Show a template: its job, its parameters and their default values.

    Example: evenbeat templates show crawl-site
    """
    print_template(with_app(lambda eb: eb.templates.get(name), data_dir), output)


@app.command()
def put(
    name: Name,
    file: Annotated[
        str,
        typer.Option(
            "--file", "-f", help="A file with the JSON that the API takes; - is standard input."
        ),
    ],
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Make a template from a file, or replace the one of this name; jobs made from it stay.

    Example: evenbeat templates put crawl-site -f crawl-site.json
    """
    with job_options.errors_by_field():
        template = TemplateIn.model_validate(job_options.read_file(file, "--file")).to_core(name)
    print_template(
        with_app(lambda eb: eb.templates.put(template, by=cli_actor()), data_dir), output
    )


@app.command()
def delete(
    name: Name,
    yes: Yes = False,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Delete a template; jobs made from it stay. Asks first.

    Example: evenbeat templates delete crawl-site --yes
    """
    found = with_app(lambda eb: eb.templates.get(name), data_dir)
    if not yes:
        typer.confirm(f"Delete the template {name}?", abort=True, err=True)
    with_app(lambda eb: eb.templates.delete(name, by=cli_actor()), data_dir)
    if output is printing.Format.JSON:
        printing.print_model(TemplateOut.from_core(found))
    else:
        typer.echo(f"Deleted the template {name}.")


@app.command("add-job")
def add_job(
    name: Name,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", help="The value of a parameter, as in site=a.example; may be JSON."
        ),
    ] = None,
    job_name: Annotated[str | None, typer.Option(help="The name of the job.")] = None,
    data_dir: DataDir = None,
    output: printing.Output = printing.Format.TABLE,
) -> None:
    """Make a job from a template, with these parameters.

    Example: evenbeat templates add-job crawl-site --job-name crawl-a -p site=a.example
    """
    fill_in = FillIn(
        parameters=dict(map(read_param, param or ())),
        job={} if job_name is None else {"name": job_name},
    )

    async def work(eb: Evenbeat) -> tuple[Job, datetime]:
        with job_options.errors_by_field():
            job_in = fill_in.fill_in(await eb.templates.get(name))
        job = await eb.jobs.add(job_in.to_core(), dedupe_key=job_in.dedupe_key, by=cli_actor())
        return job, await eb.now()

    job, now = with_app(work, data_dir, find=find_app)
    if output is printing.Format.JSON:
        printing.print_model(JobOut.from_core(job, now))
    else:
        print_added(job, now, dry_run=False)


def read_param(text: str) -> tuple[str, Any]:
    """The name and the value; a value that is not JSON is taken as text."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise typer.BadParameter("write it as name=value", param_hint="--param")
    try:
        return name, job_options.parse(value.encode(), "--param")
    except InvalidInput:
        return name, value


def template_row(template: Template, now: datetime) -> tuple[Any, ...]:
    parameters = [
        name if default is None else f"{name}={printing.format_json(default)}"
        for name, default in template.parameters.items()
    ]
    at = printing.format_moment(template.updated_at, now)
    return template.name, template.description, ", ".join(parameters), at


def print_template(template: Template, output: printing.Format) -> None:
    if output is printing.Format.JSON:
        printing.print_model(TemplateOut.from_core(template))
        return
    printing.print_fields(
        {
            "name": template.name,
            "description": template.description,
            "parameters": printing.format_json(template.parameters),
            "job": printing.format_json(template.job),
            "version": template.version,
            "updated": printing.format_instant(template.updated_at),
        }
    )
