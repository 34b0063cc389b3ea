"""`evenbeat jobs`: everything that people do with jobs."""

import typer

from evenbeat.cli.verbs import Verb, group_of

VERBS = {
    "add": Verb("job_writing", "add"),
    "list": Verb("job_lists", "list_jobs"),
    "show": Verb("job_lists", "show_job"),
    "next": Verb("job_lists", "next_beats"),
    "edit": Verb("job_writing", "edit"),
    "versions": Verb("job_lists", "versions"),
    "restore": Verb("job_writing", "restore"),
    **{
        name: Verb("job_actions", name)
        for name in (
            *("run", "pause", "resume", "enable", "disable"),
            *("retry", "cancel", "release", "delete"),
        )
    },
}

app = typer.Typer(
    cls=group_of(VERBS), help="Jobs: add, look, change, run, stop.", no_args_is_help=True
)
