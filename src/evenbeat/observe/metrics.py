"""Metrics of one process: every name, its help and its labels, defined once.

What is the same from every process, since it is read from the database, is in `gauges`.
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

# Every kind costs some forty series: beyond this many, the rest share one name.
MOST_KINDS = 100
OTHER = "other"

# From handlers that never wait to those that take an hour, which is the usual timeout.
DURATIONS = (
    *(0.001, 0.005, 0.025, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
)
# Finer below a second: that is where a start is on time.
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
        """Ask for the places at every look, so that claims need not tell."""
        self.slots.labels("busy").set_function(busy)
        self.slots.labels("free").set_function(lambda: max(total - busy(), 0))

    def count_request(self, method: str, route: str, status: int, took: float) -> None:
        self.requests.labels(method, route, str(status)).inc()
        self.request_durations.labels(method, route).observe(took)

    def text(self, accept: str, more: Iterable[Metric] = ()) -> tuple[bytes, str]:
        """All of it, with `more`, as Prometheus or OpenMetrics wants it; and the content type."""
        encode, content_type = choose_encoder(accept)
        return encode(CombinedCollector(self.registry, more)), content_type


class BalancingMetrics:
    """What this process placed."""

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

    def count(self, sort: str, count: int = 1) -> None:
        self.placements.labels(sort).inc(count)


class BoundedLabels:
    """Label values of bounded number: the first ones have their own, all later ones are other."""

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

    At 20,000 runs a second the ordinary one, at 2 us a value, would cost a tenth of the node.
    """

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._text = text
        self._bounds = bounds
        self._edges = [*map(str, map(float, bounds)), "+Inf"]
        # By kind: how many values are up to each edge, and their sum.
        self._series: dict[str, tuple[list[int], float]] = {}

    def observe(self, kind: str, values: list[float]) -> None:
        """Sorted here: few edges are then looked up among many values, not the reverse."""
        if not values:
            return
        values.sort()
        counts = [bisect_right(values, bound) for bound in self._bounds]
        before, total = self._series.get(kind, (itertools.repeat(0), 0.0))
        now = list(map(operator.add, (*counts, len(values)), before))
        # One new pair: who looks from another thread sees counts that belong together.
        self._series[kind] = now, total + sum(values)

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._text, labels=["kind"])
        for kind, (counts, total) in list(self._series.items()):
            family.add_metric([kind], list(zip(self._edges, counts, strict=True)), total)
        yield family


class LoopFailures(Collector):
    """What the log told of loops that failed, as a count."""

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "evenbeat_loop_failures_total", "Turns of loops that failed.", labels=["loop"]
        )
        for loop, count in list(log.loop_failures.items()):
            family.add_metric([loop], count)
        yield family


class BuildInfo(Collector):
    """Which Evenbeat this is."""

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "evenbeat_build_info",
            "Always 1; the labels say what runs.",
            labels=["version", "python"],
        )
        family.add_metric([version("evenbeat"), platform.python_version()], 1)
        yield family


class CombinedCollector(Collector):
    """A registry, and what was looked up for this one answer."""

    def __init__(self, registry: CollectorRegistry, more: Iterable[Metric]) -> None:
        self._registry = registry
        self._more = more

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            # When each series began doubles their number, and nobody asks for it.
            family.samples = [
                sample for sample in family.samples if not sample.name.endswith("_created")
            ]
            yield family
        yield from self._more
