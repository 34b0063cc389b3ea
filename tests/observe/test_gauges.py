"""Figures of the cluster as gauges."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from prometheus_client.metrics_core import Metric

from evenbeat.core.balance.model import Score
from evenbeat.core.balance.plan_records import BalanceFigures, RebalanceTotals
from evenbeat.core.jobs.model import State
from evenbeat.core.ops.figures import (
    ClusterFigures,
    DatabaseFigures,
    LaneFigures,
    RunTotals,
    ScheduleLag,
    TableFigures,
)
from evenbeat.observe.gauges import balance_gauges, gauges_of
from evenbeat.observe.metrics import BoundedLabels

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LAG = ScheduleLag(served=3 * SECOND, unserved=40 * SECOND, live_nodes=2, silent=timedelta(0))
FIGURES = ClusterFigures(
    taken_at=NOW,
    lanes=(
        LaneFigures("crawl", (), is_served=True, due=5, lag=3 * SECOND),
        LaneFigures("crawl", ("eu",), is_served=True, due=2, lag=SECOND),
        LaneFigures("crawl", ("gpu",), is_served=False, due=7, lag=40 * SECOND),
        LaneFigures("echo", (), is_served=True, due=0, lag=timedelta(0)),
    ),
    live_nodes=2,
    open_dead_letters=4,
    oldest_dead_letter=timedelta(hours=2),
    runs=(RunTotals("crawl", completed=90, failed=9, lost=2, cancelled=1, skipped=3),),
    database=DatabaseFigures(
        size_bytes=1_000_000,
        connections=12,
        max_connections=100,
        oldest_transaction=30 * SECOND,
        xmin_age=77,
        tables=(TableFigures("pulse", 1000, 250, None), TableFigures("run", 5000, 0, SECOND)),
    ),
    counted_at=NOW,
    jobs={State.SCHEDULED: 100, State.RUNNING: 3},
)
BALANCE = BalanceFigures(
    taken_at=NOW,
    score=Score(0.65, 0.6, 40, 1.8),
    job_counts=tuple(range(24)),
    peak_count=23,
    rebalances=RebalanceTotals(total=5, moved=12, skipped=3),
)


def samples(
    lag: ScheduleLag, figures: ClusterFigures | None, most_kinds: int = 100
) -> dict[str, float]:
    return values(gauges_of(lag, figures, BoundedLabels(most_kinds).label))


def values(families: Iterable[Metric]) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in families:
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(sample.labels.values())
            found[f"{sample.name}({labels})" if labels else sample.name] = sample.value
    return found


def test_every_figure_is_shown_in_base_units() -> None:
    found = samples(LAG, FIGURES)
    expected = {
        "evenbeat_database_up": 1,
        "evenbeat_nodes_alive": 2,
        "evenbeat_schedule_lag_seconds": 3,
        "evenbeat_unserved_lag_seconds": 40,
        "evenbeat_figures_timestamp_seconds": NOW.timestamp(),
        "evenbeat_jobs(scheduled)": 100,
        "evenbeat_jobs(running)": 3,
        "evenbeat_jobs(paused)": 0,
        "evenbeat_depth(crawl,due)": 7,
        "evenbeat_depth(crawl,unserved)": 7,
        "evenbeat_depth(echo,due)": 0,
        "evenbeat_dlq_unacknowledged": 4,
        "evenbeat_dlq_oldest_seconds": 7200,
        "evenbeat_cluster_runs_total(crawl,completed)": 90,
        "evenbeat_cluster_runs_total(crawl,failed)": 7,
        "evenbeat_cluster_runs_total(crawl,lost)": 2,
        "evenbeat_cluster_runs_total(crawl,cancelled)": 1,
        "evenbeat_cluster_runs_total(crawl,skipped)": 3,
        "evenbeat_database_size_bytes": 1_000_000,
        "evenbeat_database_connections": 12,
        "evenbeat_database_max_connections": 100,
        "evenbeat_oldest_transaction_seconds": 30,
        "evenbeat_database_xmin_age_transactions": 77,
        "evenbeat_table_live_tuples(pulse)": 1000,
        "evenbeat_table_dead_tuples(pulse)": 250,
        "evenbeat_table_dead_tuples(run)": 0,
    }
    assert {name: found.get(name) for name in expected} == expected
    assert len([name for name in found if name.startswith("evenbeat_jobs(")]) == len(State)


def test_where_no_node_lives_everything_that_waits_is_late() -> None:
    found = samples(replace(LAG, live_nodes=0), FIGURES)
    assert found["evenbeat_nodes_alive"] == 0, "what was taken while there were some is old"
    assert found["evenbeat_schedule_lag_seconds"] == 40


def test_before_a_node_took_figures_only_the_live_gauges_are_shown() -> None:
    found = samples(LAG, None)
    assert set(found) == {
        "evenbeat_database_up",
        "evenbeat_nodes_alive",
        "evenbeat_schedule_lag_seconds",
        "evenbeat_unserved_lag_seconds",
    }


def test_jobs_that_were_never_counted_are_not_shown_as_zero() -> None:
    found = samples(LAG, replace(FIGURES, counted_at=None, jobs={}))
    assert not [name for name in found if name.startswith("evenbeat_jobs")]


def test_kinds_beyond_the_bound_are_added_up() -> None:
    lanes = tuple(
        LaneFigures(f"kind {number}", (), is_served=True, due=1, lag=SECOND) for number in range(10)
    )
    found = samples(LAG, replace(FIGURES, lanes=lanes, runs=()), most_kinds=3)
    assert found["evenbeat_depth(other,due)"] == 7
    assert found["evenbeat_depth(kind 0,due)"] == 1


def test_the_distribution_has_the_names_of_the_self_balancing_scheduler() -> None:
    found = values(balance_gauges(BALANCE, threshold=0.7))
    hours = {f"scheduler_slot_job_count({hour})": hour for hour in range(24)}
    assert found == hours | {
        "scheduler_distribution_score": 0.65,
        "scheduler_peak_hour_job_count": 23,
        "evenbeat_distribution_degraded": 1,
        "scheduler_rebalance_total": 5,
        "scheduler_rebalance_jobs_moved": 12,
        "scheduler_rebalance_jobs_skipped": 3,
    }


def test_the_load_is_uneven_below_the_threshold_only() -> None:
    for threshold, degraded in ((0.65, 0), (0.651, 1), (0, 0)):
        found = values(balance_gauges(BALANCE, threshold))
        assert found["evenbeat_distribution_degraded"] == degraded
    assert values(balance_gauges(None, 0.7)) == {}
