"""Commands that are loaded when they are called.

All of them together take half a second to load, most of it for the scheduler itself; a command
that needs none of it, a wrong word and the completion of a shell should not wait for it.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_group

from evenbeat.core.suggestions import did_you_mean


class LazyCommand(NamedTuple):
    """Where a command is: a Typer app, or a function, of a module beside this one."""

    module: str
    name: str = "app"

    def load(self, called: str) -> Any:
        found: Any = getattr(import_module(f"evenbeat.cli.{self.module}"), self.name)
        # Taken out of a group: alone, it would offer to install the completion of shells.
        holder = typer.Typer()
        holder.callback()(do_nothing)
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=called)
        else:
            holder.command(called)(found)
        return get_group(holder).commands[called]


def do_nothing() -> None:
    """Before the command there is nothing to do."""


def make_lazy_group(verbs: Mapping[str, LazyCommand]) -> type[TyperGroup]:
    """A class of command groups that has these, after those that it is given."""

    class Verbs(TyperGroup):
        # Typer brings its own copy of click, whose types have no public name.
        def list_commands(self, ctx: Any) -> list[str]:
            return [*super().list_commands(ctx), *verbs]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in verbs:
                return verbs[cmd_name].load(cmd_name)
            return super().get_command(ctx, cmd_name)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            # Typer would suggest only commands that are loaded.
            wanted = args[0]
            if not ctx.resilient_parsing and self.get_command(ctx, wanted) is None:
                meant = did_you_mean(wanted, self.list_commands(ctx))
                ctx.fail(f"No such command {wanted!r}{meant or '.'}")
            return super().resolve_command(ctx, args)

    return Verbs
