"""Choosing the jobs of a command: by name or id, or by options that jobs match."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.shell.completion import complete_jobs
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.ids import read_uid
from evenbeat.core.jobs.model import State

JobArgument = Annotated[
    str, typer.Argument(help="The job's name or id.", autocompletion=complete_jobs, metavar="JOB")
]
JobsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="Names or ids; or choose jobs by options.",
        autocompletion=complete_jobs,
        metavar="JOB",
    ),
]


@dataclass(frozen=True, slots=True)
class JobMatchOptions:
    """Conditions on jobs; a job must meet all that are given."""

    state: Annotated[
        list[State] | None,
        typer.Option("--state", "--status", help="In this state; may be repeated."),
    ] = None
    kind: Annotated[list[str] | None, typer.Option(help="Of this kind; may be repeated.")] = None
    group: Annotated[list[str] | None, typer.Option(help="Of this group; may be repeated.")] = None
    label: Annotated[
        list[str] | None,
        typer.Option(help="With this label, as in team=search, or with this tag."),
    ] = None
    search: Annotated[
        str | None,
        typer.Option(
            help="With this text in the name, kind, source or address; case does not matter."
        ),
    ] = None

    def filter(self) -> Filter:
        return Filter(
            states=frozenset(self.state) if self.state else None,
            kinds=frozenset(self.kind) if self.kind else None,
            groups=frozenset(self.group) if self.group else None,
            labels=read_labels(self.label) or None,
            search=self.search or None,
        )


def read_labels(written: list[str] | None) -> dict[str, str]:
    """Labels by name; a tag is a label with an empty value."""
    pairs = [text.partition("=") for text in written or ()]
    if any(not name for name, _, _ in pairs):
        raise typer.BadParameter("write it as name=value", param_hint="--label")
    return {name: value for name, _, value in pairs}


async def find_named_jobs(eb: Evenbeat, names: list[str]) -> Filter:
    """The named jobs; NotFound if one of them does not exist."""
    return Filter(uids=frozenset([(await eb.jobs.find(name)).uid for name in names]))


async def find_job_uid(eb: Evenbeat, name_or_id: str) -> UUID:
    """An id is not looked up: the history of a deleted job can still be asked for by its id."""
    return read_uid(name_or_id) or (await eb.jobs.find(name_or_id)).uid
