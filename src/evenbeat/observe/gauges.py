"""Gauges read from the database: the same from every process that is asked."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from evenbeat.core.balance.plan_records import BalanceFigures
from evenbeat.core.jobs.model import State
from evenbeat.core.ops.figures import ClusterFigures, DatabaseFigures, RunTotals, ScheduleLag

Label = Callable[[str], str]
Values = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Gauge:
    """A name, what it means, and its labels."""

    name: str
    text: str
    labels: tuple[str, ...] = ()

    def of(self, value: float | Values) -> Metric:
        family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        values = value if isinstance(value, Mapping) else {(): value}
        for labels, each in values.items():
            family.add_metric(labels, each)
        return family


UP = Gauge("evenbeat_database_up", "Whether the database answered just now.")

# Asked for at every look, so that they are true even when no node is left to take figures.
NODES_ALIVE = Gauge("evenbeat_nodes_alive", "Nodes whose lease has not run out.")
SCHEDULE_LAG = Gauge(
    "evenbeat_schedule_lag_seconds",
    "How late the most overdue job is, of those that a living node serves, or of all without one.",
)
UNSERVED_LAG = Gauge(
    "evenbeat_unserved_lag_seconds",
    "How late the most overdue job is, of kinds and labels that no living node serves.",
)

# Taken by one node for all, once in a while.
TAKEN_AT = Gauge("evenbeat_figures_timestamp_seconds", "When a node took the figures below.")
JOBS = Gauge("evenbeat_jobs", "Jobs by state.", ("state",))
DEPTH = Gauge(
    "evenbeat_depth",
    "Jobs that are due and wait, counted up to a bound: due, or unserved by any living node.",
    ("kind", "state"),
)
DEAD_LETTERS = Gauge("evenbeat_dlq_unacknowledged", "Dead letters that nobody has acknowledged.")
OLDEST_DEAD_LETTER = Gauge("evenbeat_dlq_oldest_seconds", "Age of the oldest one of these.")
SIZE = Gauge("evenbeat_database_size_bytes", "Size of the database.")
CONNECTIONS = Gauge("evenbeat_database_connections", "Connections to the database.")
MOST_CONNECTIONS = Gauge("evenbeat_database_max_connections", "Connections the server allows.")
OLDEST_TRANSACTION = Gauge(
    "evenbeat_oldest_transaction_seconds", "Age of the oldest transaction in the database."
)
XMIN_AGE = Gauge(
    "evenbeat_database_xmin_age_transactions",
    "Transactions since the oldest one that somebody may still look at.",
)
LIVE = Gauge("evenbeat_table_live_tuples", "Rows of a table, estimated.", ("table",))
DEAD = Gauge("evenbeat_table_dead_tuples", "Rows that vacuum has yet to clear away.", ("table",))
# By the names of the self-balancing scheduler; `hour` counts from the time of the look.
SCORE = Gauge("scheduler_distribution_score", "How even the next 24 hours are: 1 is even.")
SLOT_JOBS = Gauge(
    "scheduler_slot_job_count", "Jobs that run in each of the next 24 hours.", ("hour",)
)
PEAK_JOBS = Gauge("scheduler_peak_hour_job_count", "Jobs that run in the hour of most runs.")
JOBS_MOVED = Gauge("scheduler_rebalance_jobs_moved", "Jobs that the last rebalance moved.")
JOBS_SKIPPED = Gauge("scheduler_rebalance_jobs_skipped", "Jobs that the last rebalance left.")
REBALANCES = "scheduler_rebalance_total"
REBALANCES_TEXT = "Rebalances since the beginning."
DEGRADED = Gauge(
    "evenbeat_distribution_degraded", "Whether the score is below the threshold: 1 if it is."
)

# A counter, since it only grows.
RUNS = "evenbeat_cluster_runs_total"
RUNS_TEXT = "Runs of all nodes since the beginning, as counted by housekeeping."


def without_database() -> Iterator[Metric]:
    yield UP.of(0)


def gauges_of(lag: ScheduleLag, figures: ClusterFigures | None, label: Label) -> Iterator[Metric]:
    """Everything there is to show; `label` keeps the number of kinds bounded."""
    yield UP.of(1)
    yield NODES_ALIVE.of(lag.live_nodes)
    yield SCHEDULE_LAG.of(lag.schedule.total_seconds())
    yield UNSERVED_LAG.of(lag.unserved.total_seconds())
    if figures is None:
        return
    yield TAKEN_AT.of(figures.taken_at.timestamp())
    if figures.counted_at is not None:
        yield JOBS.of({(str(state),): figures.jobs.get(state, 0) for state in State})
    yield DEPTH.of(depth(figures, label))
    yield DEAD_LETTERS.of(figures.open_dead_letters)
    yield OLDEST_DEAD_LETTER.of(figures.oldest_dead_letter.total_seconds())
    yield totals(figures.runs, label)
    yield from database_gauges(figures.database)


def depth(figures: ClusterFigures, label: Label) -> Values:
    found: Counter[tuple[str, ...]] = Counter()
    for lane in figures.lanes:
        found[label(lane.kind), "due" if lane.is_served else "unserved"] += lane.due
    return found


def totals(runs: Iterable[RunTotals], label: Label) -> Metric:
    family = CounterMetricFamily(RUNS, RUNS_TEXT, labels=("kind", "outcome"))
    found: Counter[tuple[str, str]] = Counter()
    for each in runs:
        kind = label(each.kind)
        found[kind, "completed"] += each.completed
        found[kind, "failed"] += each.failed - each.lost
        found[kind, "lost"] += each.lost
        found[kind, "cancelled"] += each.cancelled
        found[kind, "skipped"] += each.skipped
    for labels, count in found.items():
        family.add_metric(labels, count)
    return family


def database_gauges(database: DatabaseFigures) -> Iterator[Metric]:
    yield SIZE.of(database.size_bytes)
    yield CONNECTIONS.of(database.connections)
    yield MOST_CONNECTIONS.of(database.max_connections)
    yield OLDEST_TRANSACTION.of(database.oldest_transaction.total_seconds())
    yield XMIN_AGE.of(database.xmin_age)
    yield LIVE.of({(table.name,): table.live for table in database.tables})
    yield DEAD.of({(table.name,): table.dead for table in database.tables})


def balance_gauges(balance: BalanceFigures | None, threshold: float) -> Iterator[Metric]:
    """How even the load is; nothing before a node has looked for the first time."""
    if balance is None:
        return
    yield SCORE.of(balance.score.score)
    yield DEGRADED.of(float(balance.score.score < threshold))
    yield SLOT_JOBS.of({(str(hour),): jobs for hour, jobs in enumerate(balance.job_counts)})
    yield PEAK_JOBS.of(balance.peak_count)
    done = CounterMetricFamily(REBALANCES, REBALANCES_TEXT)
    done.add_metric([], balance.rebalances.total)
    yield done
    yield JOBS_MOVED.of(balance.rebalances.moved)
    yield JOBS_SKIPPED.of(balance.rebalances.skipped)
