"""Which jobs a command means: by name or id, or all that match."""

from typing import Annotated
from uuid import UUID

import typer

from evenbeat.app import Evenbeat
from evenbeat.cli.completion import complete_jobs
from evenbeat.core.filters import Filter
from evenbeat.core.ids import read_uid
from evenbeat.core.model import State

Job = Annotated[
    str, typer.Argument(help="The job's name or id.", autocompletion=complete_jobs, metavar="JOB")
]
Jobs = Annotated[
    list[str] | None,
    typer.Argument(
        help="Names or ids; or choose them by options.",
        autocompletion=complete_jobs,
        metavar="JOB",
    ),
]
States = Annotated[
    list[State] | None,
    typer.Option("--state", "--status", help="In this state; give it again for another."),
]
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", help="Of this kind; give it again for another.")
]
GroupKeys = Annotated[
    list[str] | None, typer.Option("--group", help="Of this group; give it again for another.")
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", help="With this label, as in team=search, or with this tag."),
]
Search = Annotated[
    str | None, typer.Option(help="With this in the name, kind, source or address, in any case.")
]


def read_labels(written: list[str] | None) -> dict[str, str]:
    """A tag is a label that says nothing but its name."""
    pairs = [text.partition("=") for text in written or ()]
    if any(not name for name, _, _ in pairs):
        raise typer.BadParameter("write it as name=value", param_hint="--label")
    return {name: value for name, _, value in pairs}


def chosen_by(
    states: list[State] | None,
    kinds: list[str] | None,
    groups: list[str] | None,
    labels: list[str] | None,
    search: str | None,
) -> Filter:
    return Filter(
        states=frozenset(states) if states else None,
        kinds=frozenset(kinds) if kinds else None,
        groups=frozenset(groups) if groups else None,
        labels=read_labels(labels) or None,
        search=search or None,
    )


async def named(eb: Evenbeat, names: list[str]) -> Filter:
    """Those that are named, each of which must be there."""
    return Filter(uids=frozenset([(await eb.jobs.find(name)).uid for name in names]))


async def uid_of(eb: Evenbeat, name_or_id: str) -> UUID:
    """An id is taken as it is, since what is left of a deleted job has nothing else."""
    return read_uid(name_or_id) or (await eb.jobs.find(name_or_id)).uid
