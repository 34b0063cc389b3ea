"""The documentation speaks of what is, names who acts, and can be found."""

import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
LINKED = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md"]

# A reader cannot use what does not exist: say what is, or leave it out.
UNFINISHED = (
    "so far",
    "to come",
    "not yet",
    "yet to",
    "will be",
    "for now",
    "for the time being",
    "coming soon",
    "in the future",
    "in a later version",
    "todo",
)
# Name the node, the caller, the transaction, the person.
RIDDLES = (
    "whoever",
    "whomever",
    "somebody",
    "someone",
    "nobody",
    "no one",
    "everybody",
    "everyone",
    "anybody",
    "anyone",
)
PHRASE = re.compile(rf"\b(?:{'|'.join((*UNFINISHED, *RIDDLES))})\b", re.IGNORECASE)
# Texts of the code, which these pages only show: what commands and settings say of themselves, what
# is typed and printed.
SHOWN = re.compile(
    r"<!-- begin: .*?<!-- end: |^```.*?^```|`[^`\n]*`|^\| `\w+` \| `EVENBEAT_.*?$",
    re.DOTALL | re.MULTILINE,
)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose_of(text: str) -> str:
    """With as many lines as before, so that a finding has its number."""
    return SHOWN.sub(lambda shown: "\n" * shown[0].count("\n"), text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_speaks_of_what_is_and_names_who_acts(page: Path) -> None:
    lines = prose_of(page.read_text()).splitlines()
    found = [
        f"{name_of(page)}:{number}: {match[0]}"
        for number, line in enumerate(lines, 1)
        for match in PHRASE.finditer(line)
    ]
    assert found == []


def test_the_search_for_phrases_finds_them_in_prose_alone() -> None:
    text = "Whoever\nreads\n```\nnobody\n```\n`not yet`, so far\n"
    assert [match[0] for match in PHRASE.finditer(prose_of(text))] == ["Whoever", "so far"]


def pages_of(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    inner = nav.values() if isinstance(nav, dict) else nav
    return [page for each in inner for page in pages_of(each)]


def test_every_page_is_in_the_navigation_once() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    # Names of Python objects are for the builder alone.
    nav = yaml.safe_load(re.sub(r"!!python/name:\S+", '""', text))["nav"]
    assert sorted(pages_of(nav)) == sorted(
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")
    )


def slug_of(heading: str) -> str:
    """As the builder makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def anchors_of(page: Path) -> set[str]:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return {slug_of(heading) for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE)}


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    lost: list[str] = []
    for target in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        if not aim.exists() or (anchor and anchor not in anchors_of(aim)):
            lost.append(target)
    assert lost == []


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=name_of)
def test_no_page_links_out_of_the_documentation(page: Path) -> None:
    """The site has only what is in docs/."""
    for target in re.findall(r"\]\((?![a-z]+:)([^)\s#]+)", page.read_text()):
        assert (page.parent / target).resolve().is_relative_to(DOCS), target
