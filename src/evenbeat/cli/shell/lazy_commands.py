"""Commands that are imported when they are called.

Importing all commands takes half a second, most of it for the scheduler itself. A command that does
not need it, a wrong command name and the completion of a shell do not wait for it.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_group

from evenbeat.core.suggestions import did_you_mean


class LazyCommand(NamedTuple):
    """Where a command is defined: a Typer app or a function in a module of this package."""

    module: str
    name: str = "app"

    def load(self, called: str) -> Any:
        found: Any = getattr(import_module(f"evenbeat.cli.{self.module}"), self.name)
        # Built as part of a group: alone, Typer would add options to install shell completion.
        holder = typer.Typer()
        holder.callback()(do_nothing)
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=called)
        else:
            holder.command(called)(found)
        return get_group(holder).commands[called]


def do_nothing() -> None:
    """A callback makes Typer build a group."""


def make_lazy_group(commands: Mapping[str, LazyCommand]) -> type[TyperGroup]:
    """A class of command groups that has these commands after its own."""

    class LazyGroup(TyperGroup):
        # Typer brings its own copy of click, whose types have no public name.
        def list_commands(self, ctx: Any) -> list[str]:
            return [*super().list_commands(ctx), *commands]

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in commands:
                return commands[cmd_name].load(cmd_name)
            return super().get_command(ctx, cmd_name)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            # Typer would suggest only imported commands.
            wanted = args[0]
            if not ctx.resilient_parsing and self.get_command(ctx, wanted) is None:
                suggestion = did_you_mean(wanted, self.list_commands(ctx))
                ctx.fail(f"No such command {wanted!r}{suggestion or '.'}")
            return super().resolve_command(ctx, args)

    return LazyGroup
