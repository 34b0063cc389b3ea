"""Storage settings of the tables: what they should be, and where they differ."""

from collections.abc import Mapping
from dataclasses import dataclass

from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("ops/table_storage")

# Migrations apply these. Differences are only reported: an administrator may have had a reason.
WANTED_SETTINGS: Mapping[str, Mapping[str, str]] = {
    # Every run rewrites its row twice. Room on the page keeps the claim a HOT update. Vacuum comes
    # after one dead row in fifty and without delay, else the due index fills with dead entries.
    "pulse": {
        "fillfactor": "40",
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_cost_delay": "0",
        "autovacuum_analyze_scale_factor": "0.05",
    },
    # Grows at one end and is removed at the other: a fifth of it, the default, would be millions
    # of dead rows.
    "run": {
        "autovacuum_vacuum_scale_factor": "0.05",
        "autovacuum_vacuum_insert_scale_factor": "0.1",
        "autovacuum_analyze_scale_factor": "0.05",
    },
    "run_log": {
        "autovacuum_vacuum_scale_factor": "0.05",
        "autovacuum_vacuum_insert_scale_factor": "0.1",
    },
    # Few rows, each soon dead: a vacuum without delay ends at once.
    "permit": {"autovacuum_vacuum_cost_delay": "0"},
    # Small rows that are updated often: room on the page keeps the updates HOT.
    "node": {"fillfactor": "50"},
    "job_group": {"fillfactor": "50"},
    "chore": {"fillfactor": "50"},
    "figure": {"fillfactor": "50"},
    "run_total": {"fillfactor": "50"},
    "run_day": {"fillfactor": "80"},
}


@dataclass(frozen=True, slots=True)
class SettingMismatch:
    """A setting that differs from what it should be, with advice."""

    what: str
    wanted: str
    found: str | None
    advice: str

    def __str__(self) -> str:
        return f"{self.what} is {self.found or 'not set'}, not {self.wanted}: {self.advice}"


async def find_setting_mismatches(session: Session) -> list[SettingMismatch]:
    """Every setting that differs from what it should be."""
    rows = await session.fetch(SQL["options"])
    tables = {row["table_name"]: parse_storage_options(row["options"]) for row in rows}
    found = [
        SettingMismatch(
            f"{option} of evenbeat.{table}",
            value,
            tables.get(table, {}).get(option),
            f"alter table evenbeat.{table} set ({option} = {value})",
        )
        for table, options in WANTED_SETTINGS.items()
        for option, value in options.items()
        if tables.get(table, {}).get(option) != value
    ]
    [server] = await session.fetch(SQL["server"])
    for name, is_on in (
        ("autovacuum", server["is_vacuuming"]),
        ("track_counts", server["is_counting"]),
    ):
        if not is_on:
            advice = f"alter system set {name} = on; then reload the server"
            found.append(SettingMismatch(f"{name} of the server", "on", "off", advice))
    return found


def parse_storage_options(options: list[str]) -> dict[str, str]:
    return dict(option.split("=", 1) for option in options)
