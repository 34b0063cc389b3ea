"""Gauges read from the database: the same from every process."""

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
class DatabaseGauge:
    """A gauge's name, help and labels."""

    name: str
    text: str
    labels: tuple[str, ...] = ()

    def of(self, value: float | Values) -> Metric:
        family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        values = value if isinstance(value, Mapping) else {(): value}
        for labels, each in values.items():
            family.add_metric(labels, each)
        return family


UP = DatabaseGauge("evenbeat_database_up", "Whether the database answered just now.")

# Read at every scrape, so that they are right even when no node is left.
NODES_ALIVE = DatabaseGauge("evenbeat_nodes_alive", "Nodes whose lease has not run out.")
SCHEDULE_LAG = DatabaseGauge(
    "evenbeat_schedule_lag_seconds",
    "How late the most overdue job is, of those that a living node serves, or of all without one.",
)
UNSERVED_LAG = DatabaseGauge(
    "evenbeat_unserved_lag_seconds",
    "How late the most overdue job is, of kinds and labels that no living node serves.",
)

# Taken by one node for all, every `metrics_interval`.
TAKEN_AT = DatabaseGauge(
    "evenbeat_figures_timestamp_seconds", "When a node took the figures below."
)
JOBS = DatabaseGauge("evenbeat_jobs", "Jobs by state.", ("state",))
DEPTH = DatabaseGauge(
    "evenbeat_depth",
    "Jobs that are due and wait, counted up to a bound: due, or unserved by any living node.",
    ("kind", "state"),
)
DEAD_LETTERS = DatabaseGauge(
    "evenbeat_dlq_unacknowledged", "Dead letters that are not acknowledged."
)
OLDEST_DEAD_LETTER = DatabaseGauge("evenbeat_dlq_oldest_seconds", "Age of the oldest one of these.")
SIZE = DatabaseGauge("evenbeat_database_size_bytes", "Size of the database.")
CONNECTIONS = DatabaseGauge("evenbeat_database_connections", "Connections to the database.")
MOST_CONNECTIONS = DatabaseGauge(
    "evenbeat_database_max_connections", "Connections the server allows."
)
OLDEST_TRANSACTION = DatabaseGauge(
    "evenbeat_oldest_transaction_seconds", "Age of the oldest transaction in the database."
)
XMIN_AGE = DatabaseGauge(
    "evenbeat_database_xmin_age_transactions",
    "Transactions since the oldest snapshot that is still in use.",
)
LIVE = DatabaseGauge("evenbeat_table_live_tuples", "Rows of a table, estimated.", ("table",))
DEAD = DatabaseGauge(
    "evenbeat_table_dead_tuples", "Rows that vacuum has yet to clear away.", ("table",)
)
# With the names of the self-balancing scheduler; `hour` counts from the time of the measure.
SCORE = DatabaseGauge("scheduler_distribution_score", "How even the next 24 hours are: 1 is even.")
SLOT_JOBS = DatabaseGauge(
    "scheduler_slot_job_count", "Jobs that run in each of the next 24 hours.", ("hour",)
)
PEAK_JOBS = DatabaseGauge(
    "scheduler_peak_hour_job_count", "Jobs that run in the hour of most runs."
)
JOBS_MOVED = DatabaseGauge("scheduler_rebalance_jobs_moved", "Jobs that the last rebalance moved.")
JOBS_SKIPPED = DatabaseGauge(
    "scheduler_rebalance_jobs_skipped", "Jobs that the last rebalance left."
)
REBALANCES = "scheduler_rebalance_total"
REBALANCES_TEXT = "Rebalances since the beginning."
DEGRADED = DatabaseGauge(
    "evenbeat_distribution_degraded", "Whether the score is below the threshold: 1 if it is."
)

# A counter, since it only grows.
RUNS = "evenbeat_cluster_runs_total"
RUNS_TEXT = "Runs of all nodes since the beginning, as counted by housekeeping."


def without_database() -> Iterator[Metric]:
    yield UP.of(0)


def gauges_of(lag: ScheduleLag, figures: ClusterFigures | None, label: Label) -> Iterator[Metric]:
    """All gauges; `label` bounds the number of kinds."""
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
    """How even the load is; nothing before a node has measured it for the first time."""
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
