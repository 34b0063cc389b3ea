"""`evenbeat balance`: a chart for people, JSON for programs, a question before anything moves."""

import json
import subprocess
from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from evenbeat.cli.commands import app
from evenbeat.config import Settings
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.jobs.model import Definition
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.schedules import parse_schedule
from evenbeat.core.time.timetable import Timetable
from evenbeat.placement.placer import OBSERVE, Placer
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import nodes

Balance = Callable[..., subprocess.CompletedProcess[str]]
HERD = 24


@pytest.fixture
def balance(evenbeat, environ: dict[str, str]) -> Balance:
    """Calls `evenbeat balance …` on the tests' database."""

    def call(*arguments: str, typed: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        settings = environ | {"EVENBEAT_BALANCING": "on"} | more
        return evenbeat("balance", *arguments, typed=typed, **settings)

    return call


@pytest.fixture
async def herd(database: Database, settings: Settings) -> None:
    """Jobs that all run at the same time, as without balancing."""
    await nodes.open_lanes(database, ["echo"])
    jobs = Jobs(database, Registry(), Placer(database, OBSERVE))
    await jobs.add_many([Definition("echo", Timetable(parse_schedule("every 1d")))] * HERD)
    await jobs.close()


def moved(ended: subprocess.CompletedProcess[str]) -> int:
    assert ended.returncode == 0, ended.stderr
    return len(json.loads(ended.stdout)["moved"])


async def test_show_draws_the_hours_and_says_what_could_be_done(herd, balance: Balance) -> None:
    ended = balance("show")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert len([line for line in lines[:24] if "runs of" in line or "run of" in line]) == 24
    assert [line for line in lines if "█" in line and f"{HERD} runs" in line]
    assert f"{HERD} jobs; score 0." in ended.stdout
    assert f"Moving {HERD - 1} of {HERD} jobs" in lines[-1]
    shown = json.loads(balance("show", "-o", "json").stdout)
    assert (shown["total_jobs"], len(shown["hourly_distribution"])) == (HERD, 24)


async def test_a_preview_is_applied_once_and_taken_back(herd, balance: Balance, refuses) -> None:
    assert refuses(balance("undo", "--yes")) == "there is no rebalance to take back"
    ended = balance("preview")
    assert ended.returncode == 0, ended.stderr
    assert f"Moves {HERD - 1} jobs" in ended.stdout
    plan = ended.stdout.split()[-1]
    assert f"evenbeat balance apply {plan}" in ended.stdout
    assert moved(balance("apply", plan, "--yes", "-o", "json")) == HERD - 1
    assert "applied already" in refuses(balance("apply", plan, "--yes"))
    undone = balance("undo", typed="y\n")
    assert f"Moved {HERD - 1} jobs, left 0 jobs alone" in undone.stdout, undone.stderr


async def test_apply_asks_first_and_no_means_no(herd, balance: Balance, database: Database) -> None:
    refused = balance("apply", typed="n\n")
    assert refused.returncode == 1
    assert f"Moves {HERD - 1} jobs" in refused.stderr
    async with database.connection() as connection:
        places = "select count(distinct next_beat_at) from evenbeat.pulse"
        assert await connection.fetchval(places) == 1
        done = balance("apply", "--max-moves", "5", typed="y\n")
        assert done.returncode == 0, done.stderr
        assert "Moved 5 jobs" in done.stdout
        assert await connection.fetchval(places) == 6


async def test_where_balancing_is_off_the_command_says_which_setting(
    herd, balance: Balance, refuses
) -> None:
    told = refuses(balance("apply", "--yes", EVENBEAT_BALANCING="off"))
    assert "EVENBEAT_BALANCING=on" in told


async def test_the_forecast_is_drawn_with_what_is_added(herd, balance: Balance) -> None:
    ended = balance(
        *("forecast", "--add", "every 30m", "--count", "60", "--takes", "10m", "--workers", "10")
    )
    assert ended.returncode == 0, ended.stderr
    assert len([line for line in ended.stdout.splitlines() if " at once" in line]) == 43
    assert f"{HERD + 60} jobs, 60 of them added" in ended.stdout
    assert " late" in ended.stdout
    shown = json.loads(balance("forecast", "-o", "json").stdout)
    assert (shown["total_jobs"], shown["added_jobs"], len(shown["slots"])) == (HERD, 0, 672)


@pytest.mark.parametrize(
    "arguments",
    [
        ("apply", "x"),
        ("apply", "01890000-0000-7000-8000-000000000000", "--group", "shop"),
        ("apply", "--max-moves", "-1"),
        ("show", "-o", "xml"),
        ("forecast", "--workers", "0"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, ["balance", *arguments]).exit_code == 2
