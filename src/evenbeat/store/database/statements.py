"""Named statements from *.sql files, their :names numbered for PostgreSQL.

A file holds statements under headers `-- name: claim_due`. In a statement `:limit` is a parameter.
`:now` is the clock: `statement_timestamp()` or, in tests, a clock that a test sets.

A text that several statements share is a fragment, under a header `-- fragment: matches`, and is
put in where a statement says `:matches`. A file can use its own fragments and those of
`shared.sql`, which no file may define again. Every file also runs in psql as it stands, with \\set
for these names.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

# Not clock_timestamp(): it is volatile, so that PostgreSQL cannot use it for an index range. With
# it, the due query read every entry of its index.
CLOCKS = {"database": "statement_timestamp()", "set": "evenbeat_clock.now()"}

# The file whose fragments every file can use.
SHARED = "shared"

HEADER = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
# Comments, quoted text and casts come first, so that no parameter is found in them.
TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|::|:(?P<name>[a-z_]+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement; `parameters` are its names in the order of their numbers."""

    name: str
    template: str
    parameters: tuple[str, ...]

    def text(self, clock: str) -> str:
        return number_parameters(self, clock)


@cache
def number_parameters(statement: Statement, clock: str) -> str:
    numbers = {name: f"${place}" for place, name in enumerate(statement.parameters, 1)}
    numbers["now"] = CLOCKS[clock]
    return TOKEN.sub(
        lambda token: numbers[token["name"]] if token["name"] else token[0], statement.template
    )


def parse_statements(text: str) -> dict[str, Statement]:
    """The statements of this text, with its own fragments only."""
    return fill_statements(*split_sections(text))


def fill_statements(names: dict[str, str], fragments: dict[str, str]) -> dict[str, Statement]:
    return {
        name: build_statement(name, fill_fragments(body, fragments)) for name, body in names.items()
    }


def split_sections(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The bodies of the statements and of the fragments, by name; a name is defined once."""
    sections: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    _, *parts = HEADER.split(text)
    for sort, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if name in sections[sort]:
            raise ValueError(f"the {sort} {name} is defined twice")
        sections[sort][name] = body.strip()
    return sections["name"], sections["fragment"]


def read_sections(file: str) -> tuple[dict[str, str], dict[str, str]]:
    """The statements of a file, and the fragments that they can use: its own and the shared."""
    names, fragments = split_sections(read_sql_file(file))
    shared = {} if file == SHARED else split_sections(read_sql_file(SHARED))[1]
    if twice := fragments.keys() & shared.keys():
        raise ValueError(f"{file}.sql defines fragments of {SHARED}.sql again: {sorted(twice)}")
    return names, shared | fragments


def fill_fragments(body: str, fragments: dict[str, str]) -> str:
    """The text with its fragments, which may contain others."""
    filled = TOKEN.sub(lambda token: fragments.get(token["name"] or "", token[0]), body)
    return filled if filled == body else fill_fragments(filled, fragments)


def build_statement(name: str, body: str) -> Statement:
    seen: dict[str, None] = {}
    for token in TOKEN.finditer(body):
        if token["name"] and token["name"] != "now":
            seen[token["name"]] = None
    return Statement(name, body.strip().removesuffix(";"), tuple(seen))


@cache
def load_statements(file: str) -> dict[str, Statement]:
    """The statements of <file>.sql by name; `file` is a path as in "jobs/listing"."""
    names, fragments = read_sections(file)
    return fill_statements(names, fragments)


@cache
def load_variants(file: str, name: str, slot: str) -> dict[str, Statement]:
    """One statement once for each fragment `<slot>_…`, put in where it says `:<slot>`."""
    names, fragments = read_sections(file)
    return {
        each.removeprefix(f"{slot}_"): build_statement(
            name, fill_fragments(fill_fragments(names[name], {slot: text}), fragments)
        )
        for each, text in fragments.items()
        if each.startswith(f"{slot}_")
    }


@cache
def join_statements(
    files: tuple[str, ...], names: tuple[str, ...], *, by: str, word: str
) -> Statement:
    """Several statements of files as one: each put in where the fragment `by` says `:found`."""
    statements, fragments = dict[str, str](), dict[str, str]()
    for file in files:
        in_file = read_sections(file)
        statements |= in_file[0]
        fragments |= in_file[1]
    parts = (
        fill_fragments(
            fragments[by], {"name": f"'{name}'", "found": statements[name].removesuffix(";")}
        )
        for name in names
    )
    return build_statement(by, fill_fragments(f"\n{word}\n".join(parts), fragments))


@cache
def read_sql_file(file: str) -> str:
    path = resources.files("evenbeat.store").joinpath(f"{file}.sql")
    return path.read_text(encoding="utf-8")
