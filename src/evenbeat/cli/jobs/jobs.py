"""`evenbeat jobs`: everything that people do with jobs."""

import typer

from evenbeat.cli.shell.lazy_commands import Verb, group_of

VERBS = {
    "add": Verb("jobs.job_edits", "add"),
    "list": Verb("jobs.job_lists", "list_jobs"),
    "show": Verb("jobs.job_lists", "show_job"),
    "next": Verb("jobs.job_lists", "next_beats"),
    "edit": Verb("jobs.job_edits", "edit"),
    "versions": Verb("jobs.job_lists", "versions"),
    "restore": Verb("jobs.job_edits", "restore"),
    **{
        name: Verb("jobs.job_actions", name)
        for name in (
            *("run", "pause", "resume", "enable", "disable"),
            *("retry", "cancel", "release", "delete"),
        )
    },
}

app = typer.Typer(
    cls=group_of(VERBS), help="Jobs: add, look, change, run, stop.", no_args_is_help=True
)
