"""The reference of all commands, made from the commands themselves.

`python -m evenbeat.cli.reference` prints what docs/reference/ops/cli.md shows of them.
"""

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

import typer
from typer.main import get_command

from evenbeat.cli.commands import app

# Options of nearly every command: described once, at the top of the page.
COMMON = ("data_dir", "output")
BEGIN, END = "<!-- begin: from the commands -->\n", "<!-- end: from the commands -->"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name, without groups. Typer's types have no public name."""
    yield from list_commands_below("evenbeat", get_command(app))


def list_commands_below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    context = typer.Context(command, info_name=name)
    for each in command.list_commands(context):
        yield from list_commands_below(f"{name} {each}", command.get_command(context, each))


def page() -> str:
    return "\n".join(format_section(name, command) for name, command in commands())


def format_section(name: str, command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    words = [name, *(spelling(each) for each in arguments), "[OPTIONS]" if options else ""]
    lines = [f"### {name}", "", f"    {' '.join(words).rstrip()}", ""]
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        lines += [format_paragraph(paragraph), ""]
    rows = [
        (spelling(each), meaning(each))
        for each in (*arguments, *options)
        if each.name not in COMMON
    ]
    if rows:
        lines += ["| | |", "|---|---|"]
        lines += [f"| `{what}` | {means} |" for what, means in rows]
        lines.append("")
    return "\n".join(lines)


def format_paragraph(paragraph: str) -> str:
    """One line; an example is set as code."""
    text = " ".join(paragraph.split())
    before, example, command = text.partition("Example: ")
    return f"{before}Example: `{command}`" if example else text


def spelling(parameter: Any) -> str:
    if parameter.param_type_name == "option":
        value = "" if parameter.is_flag else f" {parameter.name.upper()}"
        return f"{', '.join(parameter.opts)}{value}"
    word = parameter.metavar or parameter.name.upper()
    word = f"{word}…" if parameter.nargs == -1 else word
    return word if parameter.required else f"[{word}]"


def meaning(parameter: Any) -> str:
    choices = choices_of(parameter)
    words = [f"One of {', '.join(choices)}."] if choices else []
    return " ".join([parameter.help or "", *words]).strip().replace("|", "\\|")


def choices_of(parameter: Any) -> list[str]:
    annotation = parameter.type_descriptor.annotation
    kinds = get_args(annotation) or (annotation,)
    return [
        str(choice.value)
        for kind in kinds
        if isinstance(kind, type) and issubclass(kind, Enum)
        for choice in kind
    ]


if __name__ == "__main__":
    typer.echo(page())
