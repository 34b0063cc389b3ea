"""/readyz: whether the schedule is kept, computed from rows, for everyone and without names."""

from collections.abc import Awaitable, Callable

import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.balance.model import Score
from evenbeat.core.balance.plan_records import BalanceFigures, RebalanceTotals
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import figures, nodes
from tests.conftest import START
from tests.store.given import LEASE, definition
from tests.support.databases import Clock
from tests.support.processes import Api, Process

Ask = Callable[[], Awaitable[tuple[int, dict[str, object]]]]


@pytest.fixture
async def ask(start: Callable[..., Process], client: Callable[..., Api]) -> Ask:
    """What a server without a node answers to a client without a token."""
    stranger = client(await start("server", EVENBEAT_READY_LAG="2m").ready(), role=None)

    async def ask() -> tuple[int, dict[str, object]]:
        answer = await stranger.get("/readyz")
        assert "secret" not in answer.text
        return answer.status_code, answer.json()

    return ask


async def add(database: Database, kind: str) -> None:
    await nodes.open_lanes(database, [kind])
    await Jobs(database, Registry()).add(definition("every 1m", kind=kind, name="a secret"))


async def join(database: Database, *kinds: str) -> int:
    return await nodes.join_node(database, "secret:1", kinds=kinds, labels=(), lease_duration=LEASE)


async def test_a_server_without_jobs_needs_no_node_to_be_ready(ask: Ask) -> None:
    assert await ask() == (
        200,
        {
            "status": "ready",
            "checks": {"database": "ok", "schema": "ok", "schedule": "ok"},
            "figures": {
                "lag_seconds": 0.0,
                "unserved_lag_seconds": 0.0,
                "live_nodes": 0,
                "seconds_without_a_node": None,
                "distribution": "unknown",
                "distribution_score": None,
            },
        },
    )


@pytest.mark.parametrize(
    ("score", "expected"), [(0.5, "uneven: the score is 0.50, below 0.7"), (0.7, "ok")]
)
async def test_an_uneven_load_is_shown_and_the_server_stays_ready(
    ask: Ask, database: Database, score: float, expected: str
) -> None:
    seen = Score(score, score, peak=8, peak_over_ideal=4.0)
    await figures.save_balance(
        database, BalanceFigures(START, seen, (8,) * 24, 8, RebalanceTotals())
    )
    status, answer = await ask()
    assert status == 200
    shown: dict[str, object] = answer["figures"]  # type: ignore[assignment]
    assert (shown["distribution"], shown["distribution_score"]) == (expected, score)


async def test_a_schedule_that_nobody_keeps_is_not_ready(
    ask: Ask, database: Database, clock: Clock
) -> None:
    await add(database, "secret")
    await clock.advance(minutes=2, seconds=59)
    assert (await ask())[0] == 200
    await clock.advance(minutes=1)
    status, answer = await ask()
    assert status == 503
    assert answer["status"] == "not ready"
    late = "no node is alive, and a job is 179 s late, and 120 s are allowed"
    assert answer["checks"] == {"database": "ok", "schema": "ok", "schedule": late}


async def test_nodes_that_fall_behind_are_not_ready(
    ask: Ask, database: Database, clock: Clock
) -> None:
    await add(database, "secret")
    await join(database, "secret")
    await clock.set_to(START.replace(hour=13))
    status, answer = await ask()
    assert status == 503
    assert answer["figures"]["live_nodes"] == 1  # type: ignore[index]
    checks: dict[str, str] = answer["checks"]  # type: ignore[assignment]
    assert checks["schedule"].startswith("a job is ")


async def test_a_kind_that_no_node_serves_does_not_make_the_others_unready(
    ask: Ask, database: Database, clock: Clock
) -> None:
    await add(database, "secret")
    await join(database, "other")
    await clock.set_to(START.replace(hour=13))
    status, answer = await ask()
    assert status == 200
    figures: dict[str, float] = answer["figures"]  # type: ignore[assignment]
    assert figures["lag_seconds"] == 0
    assert figures["unserved_lag_seconds"] > 3000
