"""`evenbeat jobs`: the commands about jobs."""

import typer

from evenbeat.cli.shell.lazy_commands import LazyCommand, make_lazy_group

COMMANDS = {
    "add": LazyCommand("jobs.job_edits", "add"),
    "list": LazyCommand("jobs.job_lists", "list_jobs"),
    "show": LazyCommand("jobs.job_lists", "show_job"),
    "next": LazyCommand("jobs.job_lists", "next_beats"),
    "edit": LazyCommand("jobs.job_edits", "edit"),
    "versions": LazyCommand("jobs.job_lists", "versions"),
    "restore": LazyCommand("jobs.job_edits", "restore"),
    **{
        name: LazyCommand("jobs.job_actions", name)
        for name in (
            *("run", "pause", "resume", "enable", "disable"),
            *("retry", "cancel", "release", "delete"),
        )
    },
}

app = typer.Typer(
    cls=make_lazy_group(COMMANDS),
    help="Jobs: add, list, show, change, run, stop.",
    no_args_is_help=True,
)
