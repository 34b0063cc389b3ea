"""Runs as lines: what is written can be read back, and opens nothing in a spreadsheet."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.jobs.model import Cause, Run, RunState
from evenbeat.core.runs.run_export import (
    COLUMNS,
    ExportedRun,
    csv_header,
    csv_line,
    json_line,
    run_to_object,
)

AT = datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
RUN = Run(
    7,
    UUID(int=1),
    3,
    RunState.FAILED,
    Cause.RETRY,
    AT,
    2,
    AT,
    finished_at=AT + timedelta(seconds=1),
    duration=timedelta(milliseconds=1001),
    error='a, "b"\r\nc',
    result={"a": [1, None, "\N{SNOWMAN}"]},
)
EXPORTED = ExportedRun(RUN, UUID(int=1), "name", "kind")


def read_back(line: str) -> dict[str, str]:
    [row] = csv.DictReader(io.StringIO(csv_header() + line, newline=""))
    return row


def test_every_column_is_written_in_both_forms() -> None:
    told = json.loads(json_line(EXPORTED))
    assert tuple(told) == COLUMNS
    assert told == run_to_object(EXPORTED)
    assert (told["duration_ms"], told["started_at"]) == (1001, "2030-01-01T12:00:00.123456Z")
    row = read_back(csv_line(EXPORTED))
    assert tuple(row) == COLUMNS
    assert (row["error"], row["duration_ms"]) == (RUN.error, "1001")
    assert json.loads(row["result"]) == RUN.result


def test_null_and_an_empty_text_are_two_things() -> None:
    empty = csv_line(replace(EXPORTED, job_name="", kind=None))
    assert ',"",,3,' in empty


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\tx", "\rx"])
def test_a_formula_is_a_text_unless_it_is_to_be_exact(text: str) -> None:
    exported = replace(EXPORTED, run=replace(RUN, error=text))
    assert read_back(csv_line(exported))["error"] == f"'{text}"
    assert read_back(csv_line(exported, is_exact=True))["error"] == text
    assert json.loads(json_line(exported))["error"] == text


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_any_text_comes_back(text: str) -> None:
    exported = replace(EXPORTED, run=replace(RUN, error=text, result=text))
    row = read_back(csv_line(exported, is_exact=True))
    assert (row["error"], json.loads(row["result"])) == (text, text)
    assert json.loads(json_line(exported))["error"] == text
    assert json_line(exported).count("\n") == 1
