"""Every command that a page shows is one that `evenbeat` understands, with its options."""

import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest

from evenbeat.cli.reference import commands

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(?:sh|console)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
PARSED = dict(commands())
SOME_ID = "01a1e04f-483e-7cfb-b66e-2f85f6032ab5"
END_OF_COMMAND = {"|", ">", "&", "&&", ";"}


def lines_of(page: Path) -> list[str]:
    text = "\n".join(BLOCK.findall(page.read_text())).replace("\\\n", " ")
    found = re.findall(
        r"^(?:\$ )?(?:\w+=\S+ )*(?:\S+ .*\| )?(?:\./dev )?(evenbeat .*)$", text, re.M
    )
    return [line for line in found if not line.startswith("evenbeat --")]


SHOWN = [
    pytest.param(line, id=f"{page.relative_to(ROOT)}: {line}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for line in lines_of(page)
]


def test_there_are_commands_to_look_at() -> None:
    assert len(SHOWN) > 50


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_of_a_page_is_understood(line: str) -> None:
    typed = [SOME_ID if word == "ID" else word for word in shlex.split(line, comments=True)]
    words = [*takewhile(lambda word: word not in END_OF_COMMAND, typed)]
    names = [" ".join(words[:count]) for count in (3, 2) if " ".join(words[:count]) in PARSED]
    assert names, "there is no such command"
    [name, *_] = names
    assert PARSED[name].make_context(name, words[len(name.split()) :]) is not None
