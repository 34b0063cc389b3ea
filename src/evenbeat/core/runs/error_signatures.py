"""Signatures of errors: what is left of a message without what differs from run to run."""

import re

from evenbeat.core.limits import LONGEST_SIGNATURE

NO_MESSAGE = "no error message"
# A message is cut here: what follows is mostly data of one run.
LONGEST_READ = 2_000

# In this order: a path may stand in quotes, and an id may be a part of a path.
_PARTS = (
    # An apostrophe within a word opens nothing.
    (re.compile(r"""(?<!\w)(["'`])(?:(?!\1).)*\1(?!\w)"""), "<text>"),
    (re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s<>]+"), "<url>"),
    (re.compile(r"(?<![\w<>])(?:[A-Za-z]:|~|\.{1,2})?[/\\][^\s<>:,;()'\"`]+"), "<path>"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    # Whatever else has a digit in it: numbers, times, addresses, hashes, names with a number.
    (re.compile(r"[+-]?\w*\d(?:[\w.:,%+-]*\w)?"), "<n>"),
    (re.compile(r"<n>(?:[^\w<]{0,2}<n>)+"), "<n>"),
)


def build_signature(error: str | None, error_class: str | None = None) -> str:
    """The same for errors that differ in numbers, ids, paths and quoted parts only.

    A signature is its own signature, has no digit in it, and is one line.
    """
    line = _first_line(error or "") or (error_class or "")
    text, before = line, None
    while text != before:
        before, text = text, _strip(text)
    return text[:LONGEST_SIGNATURE].strip() or NO_MESSAGE


def _first_line(error: str) -> str:
    lines = (" ".join(line.split()) for line in error[:LONGEST_READ].splitlines())
    return next((line for line in lines if line), "")


def _strip(text: str) -> str:
    for pattern, sign in _PARTS:
        text = pattern.sub(sign, text)
    return text
