"""The glossary has every word of the domain, in order."""

import re
from pathlib import Path

from evenbeat import Action, Cause, State

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| \*\*(.+?)\*\*(.*?) \| (.+) \| (\[.+\]\(.+\)) \|$",
    (ROOT / "docs" / "reference" / "glossary.md").read_text(),
    re.MULTILINE,
)
WORDS = {word for word, _, _, _ in ROWS}
SAID = " ".join(meaning for _, _, meaning, _ in ROWS)


def test_the_words_are_in_order() -> None:
    words = [word.casefold() for word, _, _, _ in ROWS]
    assert len(words) > 80
    assert words == sorted(words)


def test_it_has_every_word_of_the_architecture() -> None:
    way = (ROOT / "ARCHITECTURE.md").read_text().partition("## The way of one job")[2]
    page, _, _ = way.partition("## Files on the way")
    # A single bold word is a term; a bold phrase is a heading.
    words = {word.lower() for word in bold(page) if word.isalpha()} - {"meanwhile"}
    assert len(words) > 2
    assert words - WORDS == set()


def bold(text: str) -> list[str]:
    return re.findall(r"\*\*(.+?)\*\*", text)


def test_it_names_every_action_state_and_cause() -> None:
    for word in (*Action, *State, *Cause):
        assert word in SAID or word in WORDS, word
