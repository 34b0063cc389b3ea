"""Metrics of one process: every name, its help and its labels, defined once.

`gauges` has those that are read from the database and so are the same from every process.
"""

import itertools
import operator
import platform
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from evenbeat.observe import log

# Every kind costs some forty series: beyond this many, the others share one label.
MOST_KINDS = 100
OTHER = "other"

# In seconds: from handlers that never wait to one hour, the default timeout.
DURATIONS = (
    *(0.001, 0.005, 0.025, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
)
# Finer below a second: such a start is on time.
WAITS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
REQUESTS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCHES = (1, 2, 5, 10, 25, 50, 100, 250, 500)


class Metrics:
    """The metrics of one app, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.kinds = BoundedLabels(MOST_KINDS)
        registry = self.registry
        self.runs = Counter(
            "evenbeat_runs_total", "Runs that ended.", ["kind", "outcome"], registry=registry
        )
        self.durations = BatchHistogram(
            "evenbeat_run_duration_seconds", "How long handlers took.", DURATIONS
        )
        self.waits = BatchHistogram(
            "evenbeat_run_wait_seconds",
            "From the beat to the start of the run that its schedule started.",
            WAITS,
        )
        self.fires = Counter(
            "evenbeat_fires_total",
            "Beats and wishes by what was decided: scheduled, catchup, manual, retry, skipped.",
            ["decision"],
            registry=registry,
        )
        self.leases_expired = Counter(
            "evenbeat_leases_expired_total",
            "Leases of dead nodes that this process took over.",
            registry=registry,
        )
        self.slots = Gauge(
            "evenbeat_worker_slots", "Places for runs on this node.", ["state"], registry=registry
        )
        self.claims = Counter(
            "evenbeat_claims_total",
            "Claims, by whether they found jobs: some, none.",
            ["found"],
            registry=registry,
        )
        self.claim_sizes = Histogram(
            "evenbeat_claim_batch_size",
            "Jobs taken by a claim that found some.",
            buckets=BATCHES,
            registry=registry,
        )
        self.requests = Counter(
            "evenbeat_http_requests_total",
            "Requests answered.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.request_durations = Histogram(
            "evenbeat_http_request_duration_seconds",
            "From the request to the start of its answer.",
            ["method", "route"],
            buckets=REQUESTS,
            registry=registry,
        )
        self.balancing = BalancingMetrics(registry)
        for collector in (self.durations, self.waits, LoopFailures(), BuildInfo()):
            registry.register(collector)
        ProcessCollector(registry=registry)

    def count_claim(self, size: int) -> None:
        self.claims.labels("some" if size else "none").inc()
        if size:
            self.claim_sizes.observe(size)

    def watch_slots(self, busy: Callable[[], int], total: int) -> None:
        """Read the slots at every scrape, so that claims need not count them."""
        self.slots.labels("busy").set_function(busy)
        self.slots.labels("free").set_function(lambda: max(total - busy(), 0))

    def count_request(self, method: str, route: str, status: int, took: float) -> None:
        self.requests.labels(method, route, str(status)).inc()
        self.request_durations.labels(method, route).observe(took)

    def text(self, accept: str, more: Iterable[Metric] = ()) -> tuple[bytes, str]:
        """All metrics, with `more`, in the format that `accept` asks for; and the content type."""
        encode, content_type = choose_encoder(accept)
        return encode(CombinedCollector(self.registry, more)), content_type


class BalancingMetrics:
    """Counts the placements of this process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.placements = Counter(
            "scheduler_placements_total",
            "Phases chosen: new, reschedule (edited or resumed), rebalance.",
            ["type"],
            registry=registry,
        )
        self.durations = Histogram(
            "scheduler_placement_duration_seconds",
            "How long it took to place jobs, one or many at once.",
            buckets=REQUESTS,
            registry=registry,
        )

    def count(self, reason: str, count: int = 1) -> None:
        self.placements.labels(reason).inc(count)


class BoundedLabels:
    """A bounded number of label values: names beyond the first `most` become `other`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def label(self, name: str) -> str:
        known = self._known.get(name)
        if known is not None:
            return known
        if len(self._known) >= self._most:
            return OTHER
        self._known[name] = name
        return name


class BatchHistogram(Collector):
    """A histogram by kind that takes its values in batches.

    The client's own histogram takes 2 µs a value: at 20,000 runs a second, two values each, that
    would be a tenth of a node's time.
    """

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._text = text
        self._bounds = bounds
        self._edges = [*map(str, map(float, bounds)), "+Inf"]
        # By kind: the number of values up to each edge, and their sum.
        self._series: dict[str, tuple[list[int], float]] = {}

    def observe(self, kind: str, values: list[float]) -> None:
        """Sorts the values: looking up 15 edges among 500 values is faster than the reverse."""
        if not values:
            return
        values.sort()
        counts = [bisect_right(values, bound) for bound in self._bounds]
        before, total = self._series.get(kind, (itertools.repeat(0), 0.0))
        now = list(map(operator.add, (*counts, len(values)), before))
        # Replaced by one assignment: a scrape in another thread sees a consistent pair.
        self._series[kind] = now, total + sum(values)

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._text, labels=["kind"])
        for kind, (counts, total) in list(self._series.items()):
            family.add_metric([kind], list(zip(self._edges, counts, strict=True)), total)
        yield family


class LoopFailures(Collector):
    """The failed turns of loops that `log.loop_failed` has counted."""

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "evenbeat_loop_failures_total", "Turns of loops that failed.", labels=["loop"]
        )
        for loop, count in list(log.loop_failures.items()):
            family.add_metric([loop], count)
        yield family


class BuildInfo(Collector):
    """The versions of Evenbeat and of Python."""

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "evenbeat_build_info",
            "Always 1; the labels say what runs.",
            labels=["version", "python"],
        )
        family.add_metric([version("evenbeat"), platform.python_version()], 1)
        yield family


class CombinedCollector(Collector):
    """A registry, and metrics that were read for one scrape."""

    def __init__(self, registry: CollectorRegistry, more: Iterable[Metric]) -> None:
        self._registry = registry
        self._more = more

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            # `_created` samples would nearly double the size, and dashboards do not use them.
            family.samples = [
                sample for sample in family.samples if not sample.name.endswith("_created")
            ]
            yield family
        yield from self._more
