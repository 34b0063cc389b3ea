"""Runs as lines for other programs: CSV and NDJSON, whose values can be read back."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from evenbeat.core.jobs.ids import run_uid
from evenbeat.core.jobs.model import Run, RunState
from evenbeat.core.time.schedules.base.instants import format_instant

MILLISECOND = timedelta(milliseconds=1)
COLUMNS = (
    *("id", "job_id", "job_name", "kind", "number", "state", "cause", "beat_at", "attempt"),
    *("started_at", "finished_at", "duration_ms", "node", "error_class", "error", "stack_trace"),
    *("result", "items_crawled", "items_indexed", "reason", "skipped_count", "skipped_until"),
)
# A spreadsheet takes such a text for a formula and runs it when a person opens the file. Anyone who
# can make a job fail with a message of their own could write one.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to export: those started from `since` on and before `until`; None: no bound."""

    job_uid: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    states: frozenset[RunState] | None = None


EVERY_RUN = RunFilter()


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run with what is known of its job: nothing but the run, once the job was removed."""

    run: Run
    job_uid: UUID | None
    job_name: str | None
    kind: str | None


def run_to_object(exported: ExportedRun) -> dict[str, Any]:
    """Its columns, as JSON knows them."""
    run = exported.run
    shown = {name: getattr(run, name) for name in COLUMNS if hasattr(run, name)}
    shown |= {
        "id": str(run_uid(run.id)),
        "job_id": exported.job_uid and str(exported.job_uid),
        "job_name": exported.job_name,
        "kind": exported.kind,
        "duration_ms": None if run.duration is None else run.duration // MILLISECOND,
    }
    return {name: to_json_value(shown[name]) for name in COLUMNS}


def to_json_value(value: Any) -> Any:
    return format_instant(value) if isinstance(value, datetime) else value


def json_line(exported: ExportedRun) -> str:
    return f"{json.dumps(run_to_object(exported), ensure_ascii=False, separators=(',', ':'))}\n"


def csv_line(exported: ExportedRun, *, is_exact: bool = False) -> str:
    """Texts stand in quotes and nothing stands for null, as in PostgreSQL's own CSV.

    Unless it is exact, a text that a spreadsheet would run as a formula has a ' in front.
    """
    values = run_to_object(exported)
    if values["result"] is not None:
        values["result"] = json.dumps(values["result"], ensure_ascii=False)
    return csv_row(to_csv_field(values[name], is_exact=is_exact) for name in COLUMNS)


def csv_header() -> str:
    return csv_row(COLUMNS)


def csv_row(fields: Iterable[str]) -> str:
    return f"{','.join(fields)}\r\n"


def to_csv_field(value: Any, *, is_exact: bool) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        return str(value)
    is_formula = value.startswith(FORMULA) and not is_exact
    text = f"'{value}" if is_formula else value
    return f'"{text.replace(chr(34), chr(34) * 2)}"'
