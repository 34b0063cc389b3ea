"""docs/reference/ops/cli.md and the help texts: every command is there, and says what it does."""

import inspect
import shlex
from pathlib import Path
from typing import Any

import pytest

from evenbeat.cli.reference import BEGIN, END, commands, page
from tests.cli.conftest import Command
from tests.control.controlled_jobs import ControlledJobs, due, open_controlled_jobs

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "ops" / "cli.md"
COMMANDS = [pytest.param(name, command, id=name) for name, command in commands()]
# They look at settings or at a text, and at no database.
WITHOUT_DATABASE = ("evenbeat config", "evenbeat schedule")


def test_the_page_shows_every_command_as_it_is() -> None:
    _, _, rest = DOCS.read_text().partition(BEGIN)
    shown, _, _ = rest.partition(END)
    assert shown == page(), (
        "docs/reference/ops/cli.md is out of date: put what "
        "`python -m evenbeat.cli.reference` prints between its markers"
    )


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_a_command_and_each_of_its_options_has_a_sentence(name: str, command: Any) -> None:
    first = inspect.cleandoc(command.help).splitlines()[0]
    assert len(first.split()) >= 3, first
    dumb = [each.name for each in command.params if not each.help]
    assert dumb == []


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_a_command_has_an_example_of_itself_that_it_understands(name: str, command: Any) -> None:
    _, _, example = " ".join(command.help.split()).partition("Example: ")
    assert f"{example} ".startswith(f"{name} ")
    words = shlex.split(example)[len(name.split()) :]
    # As it would be read, with nothing done.
    assert command.make_context(name, words) is not None


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_whatever_opens_the_database_can_be_told_where_it_is(name: str, command: Any) -> None:
    has_it = "data_dir" in [each.name for each in command.params]
    assert has_it is (name not in WITHOUT_DATABASE)


async def test_a_shell_completes_the_names_of_jobs(
    evenbeat: Command, environ: dict[str, str], database: Any
) -> None:
    controlled: ControlledJobs = await open_controlled_jobs(database)
    for name in ("report", "reports", "other report"):
        await controlled.add(due(name=name))
    asked = {
        "_EVENBEAT_COMPLETE": "complete_bash",
        "COMP_WORDS": "evenbeat jobs show re",
        "COMP_CWORD": "3",
    }
    assert evenbeat(**environ, **asked).stdout.splitlines() == ["report", "reports"]


def test_completion_starts_no_server_and_says_nothing_of_errors(
    evenbeat: Command, tmp_path: Path
) -> None:
    asked = {
        "_EVENBEAT_COMPLETE": "complete_bash",
        "COMP_WORDS": "evenbeat explain re",
        "COMP_CWORD": "2",
    }
    ended = evenbeat(**asked)
    assert (ended.stdout.strip(), ended.stderr, list(tmp_path.iterdir())) == ("", "", [])
    ended = evenbeat(**asked, EVENBEAT_DATABASE_URL="postgresql://nobody@127.0.0.1:9/none")
    assert (ended.stdout.strip(), ended.stderr) == ("", "")
