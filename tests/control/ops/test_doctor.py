"""The doctor finds each thing that is wrong, says what to do, and finds nothing else."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.config import Settings
from evenbeat.control.ops import doctor
from evenbeat.control.ops.doctor import CHECKS, Finding, diagnose
from evenbeat.core.ops.audit import Actor
from evenbeat.core.ops.figures import DatabaseFigures, LaneFigures, ScheduleLag, TableFigures
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import maintenance
from tests.conftest import START
from tests.store.given import HOUR, JobStore, definition, open_job_store
from tests.support.databases import Clock

WELL = DatabaseFigures(1, 5, 100, timedelta(0), 0, ())
ZERO = timedelta(0)


@pytest.fixture
async def job_store(database: Database) -> JobStore:
    job_store = await open_job_store(database)
    # The server still counts dead rows that other tests have left behind.
    await job_store.fetch("select pg_stat_reset()")
    return job_store


async def found(job_store: JobStore, settings: Settings) -> dict[str, Finding]:
    """The findings, without that of every test server: its autovacuum is off."""
    findings = await diagnose(job_store.database, settings)
    assert {each.check for each in findings} <= set(CHECKS)
    return {each.check: each for each in findings if "autovacuum of the server" not in each.what}


async def test_a_healthy_place_has_nothing_to_tell(job_store: JobStore, settings: Settings) -> None:
    await job_store.add(due_at=await doctor.clock.now(job_store.database) + HOUR)
    assert await found(job_store, settings) == {}


async def test_autovacuum_that_is_off_is_found(job_store: JobStore, settings: Settings) -> None:
    [finding] = await diagnose(job_store.database, settings)
    assert (finding.check, finding.is_wrong) == ("storage", True)
    assert finding.advice == "alter system set autovacuum = on; then reload the server"


async def test_a_late_schedule_is_found(
    job_store: JobStore, settings: Settings, clock: Clock
) -> None:
    await job_store.add()
    await clock.advance(minutes=5)
    late = (await found(job_store, settings))["schedule"]
    assert late.what == "a job is 5m late, and 1m are allowed"


async def test_no_node_is_found_with_when_the_last_one_lived(
    job_store: JobStore, settings: Settings
) -> None:
    await job_store.fetch("update evenbeat.node set dead_at = now() - interval '1 hour'")
    assert (await found(job_store, settings))["nodes"].what.startswith(
        "none is alive: the last one"
    )
    await job_store.fetch("delete from evenbeat.node")
    assert (await found(job_store, settings))["nodes"].what == "none is alive: there never was one"


async def test_a_kind_that_nobody_serves_is_found_while_something_waits_for_it(
    job_store: JobStore, settings: Settings
) -> None:
    await job_store.fetch("update evenbeat.node set kinds = '{echo}'")
    assert await found(job_store, settings) == {}
    await job_store.add(definition(kind="crawl"))
    finding = (await found(job_store, settings))["kinds"]
    assert finding.what == "1 jobs of kind crawl are due, and no live node serves it"
    seen = await doctor.figures.measure_figures(job_store.database)
    programs = LaneFigures("program", (), is_served=False, due=2, lag=HOUR)
    [finding] = doctor.check_kinds_and_letters(replace(seen, lanes=(programs,)))
    assert finding.advice == "start a node with EVENBEAT_PROGRAMS=on, or pause these jobs"


@pytest.mark.breaks_rules("a permit that nobody has a lease for")
async def test_dead_letters_and_broken_rules_are_found(
    job_store: JobStore, settings: Settings
) -> None:
    await job_store.fetch(
        "insert into evenbeat.dead_letter (id, job_id, kind, payload, attempts, created_at)"
        " values (1, 1, 'echo', '{}', 3, evenbeat_clock.now() - interval '2 days')"
    )
    await job_store.fetch("insert into evenbeat.permit (group_id, job_id) values (1, 1)")
    findings = await found(job_store, settings)
    assert findings["dead letters"].what == "not acknowledged: 1, the oldest for 2d"
    assert findings["rules"].what == "1 breaches of 1 rules"
    quick = await diagnose(job_store.database, settings, with_rules=False)
    assert "rules" not in {each.check for each in quick}


async def test_maintenance_is_worth_knowing_and_not_wrong(
    job_store: JobStore, settings: Settings
) -> None:
    async with job_store.database.transaction() as session:
        await maintenance.switch_on(session, "moving", by=Actor("tests"))
    assert (await found(job_store, settings))["maintenance"].is_wrong is False


SERVERS = {
    "dead rows": ({"tables": (TableFigures("pulse", 10, 20_000, None),)}, "vacuum"),
    "a long transaction": ({"oldest_transaction": timedelta(hours=1)}, "transactions"),
    "an old snapshot": ({"xmin_age": 5_000_000}, "transactions"),
    "few connections left": ({"connections": 90}, "connections"),
    "a pool that is too large": ({"max_connections": 12}, "connections"),
}


@pytest.mark.parametrize(("change", "check"), SERVERS.values(), ids=SERVERS)
def test_what_the_server_says_of_itself_is_judged(
    settings: Settings, change: dict[str, Any], check: str
) -> None:
    assert list(doctor.check_database_server(WELL, settings)) == []
    [finding] = doctor.check_database_server(replace(WELL, **change), settings)
    assert (finding.check, finding.is_wrong) == (check, True)


SETTINGS = {
    "ready_lag": {"ready_lag": timedelta(seconds=1), "check_interval": timedelta(seconds=2)},
    "stale_check_interval": {"stale_check_interval": timedelta(minutes=2)},
    "stop_grace": {"stop_grace": timedelta(minutes=1)},
}


@pytest.mark.parametrize(("name", "changes"), SETTINGS.items())
def test_settings_that_do_not_fit_are_found(
    settings: Settings, name: str, changes: dict[str, Any]
) -> None:
    assert list(doctor.check_settings(settings)) == []
    [finding] = doctor.check_settings(settings.model_copy(update=changes))
    assert finding.what.startswith(name)


async def test_one_machine_has_one_clock(database: Database) -> None:
    ours = Database(database.url)
    await ours.open()
    assert await doctor.check_clocks(ours) == []
    await ours.close()


@pytest.mark.parametrize("seconds", [-30, 30])
def test_clocks_that_are_apart_are_found(seconds: int) -> None:
    before, after = START, START + timedelta(seconds=10)
    assert list(doctor.compare_clocks(before, START + timedelta(seconds=5), after)) == []
    database_now = (after if seconds > 0 else before) + timedelta(seconds=seconds)
    [finding] = doctor.compare_clocks(before, database_now, after)
    assert finding.what == "this machine's and the database's are 30s apart"


def test_a_lag_within_bounds_is_no_news(settings: Settings) -> None:
    assert (
        list(
            doctor.check_schedule_and_nodes(
                ScheduleLag(settings.ready_lag, ZERO, 1, ZERO), settings
            )
        )
        == []
    )
