"""Rules for the files of the schema: what was released stays, and no file is too long."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from evenbeat.store.database.migrations import (
    Migration,
    Repeatable,
    Step,
    known_migrations,
    known_repeatables,
    known_steps,
    schema_folder,
)

ROOT = Path(__file__).resolve().parents[2]

Release = Mapping[str, str]


def key_of(step: Step) -> str:
    return str(step) if isinstance(step, Migration) else f"{step.name} {step.version}"


def broken_promises(steps: Sequence[Step], releases: Mapping[str, Release]) -> list[str]:
    """How these files differ from what was released, each with what to do about it."""
    ours = {key_of(step): step for step in steps}
    versions = {step.name: step.version for step in steps if isinstance(step, Repeatable)}
    found: list[str] = []
    for released in releases.values():
        for key, checksum in released.items():
            name, _, number = key.rpartition(" ")
            if key in ours:
                if ours[key].checksum != checksum:
                    found.append(f"{key} was changed after its release: {remedy(ours[key])}")
            elif re.match(r"\d{4} ", key):
                found.append(f"{key} was released and is gone: restore it")
            elif versions.get(name, int(number)) < int(number):
                found.append(f"{key} was released: the version of {name} must not go down")
    return found


def remedy(step: Step) -> str:
    if isinstance(step, Migration):
        return "restore it, and write the change as a new migration"
    return f"write `-- version: {step.version + 1}` in its first line"


def table_of(release: str) -> str:
    lines = [f'"{key_of(step)}" = "{step.checksum}"' for step in known_steps()]
    return "\n".join([f'["{release}"]', *lines])


def test_what_was_released_has_not_changed() -> None:
    releases = tomllib.loads((schema_folder() / "released.toml").read_text())
    assert broken_promises(known_steps(), releases) == []


def test_every_release_of_the_changelog_has_its_checksums() -> None:
    releases = tomllib.loads((schema_folder() / "released.toml").read_text())
    named = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    for release in named:
        assert release in releases, f"add to schema/released.toml:\n\n{table_of(release)}"


RELEASES = {
    "1.0.0": {key_of(step): step.checksum for step in known_steps()},
}
BASELINE, FILE = known_migrations()[0], known_repeatables()[0]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (replace(FILE, text=FILE.text + "--"), f"write `-- version: {FILE.version + 1}` in"),
        (replace(FILE, version=FILE.version - 1), "must not go down"),
        (replace(BASELINE, up=BASELINE.up + "--"), "write the change as a new migration"),
        (replace(BASELINE, number=2), "was released and is gone"),
    ],
)
def test_a_change_of_a_released_file_is_noticed(changed: Step, told: str) -> None:
    steps = [changed if step.name == changed.name else step for step in known_steps()]
    [broken] = broken_promises(steps, RELEASES)
    assert told in broken


def test_a_raised_version_may_have_another_text() -> None:
    raised = replace(FILE, version=FILE.version + 1, text=FILE.text + "--")
    assert broken_promises([BASELINE, raised], RELEASES) == []


def test_a_file_that_is_new_or_gone_breaks_no_promise() -> None:
    new = Repeatable("new", 1, "-- version: 1\n")
    assert broken_promises([BASELINE, new], RELEASES) == []
