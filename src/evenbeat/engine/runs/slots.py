"""The slots of a node: what runs on it, and how many more runs it can take."""

import asyncio
from collections.abc import Callable, Sequence

from evenbeat.config import Settings
from evenbeat.core.jobs.model import Claimed, HeldRun, UnrunnableClaim
from evenbeat.core.runs.outcome import Failed, Outcome
from evenbeat.core.runs.registry import Registry
from evenbeat.engine.runs.active_run import UNWANTED, ActiveRun
from evenbeat.engine.runs.handler_services import NodeServices
from evenbeat.engine.runs.recorder import LARGEST_BATCH, EndedRun, Recorder
from evenbeat.observe import log
from evenbeat.observe.run_reports import log_starts
from evenbeat.store.ops.nodes import Lane

# A claim is one statement whatever its size; larger ones only hold their locks longer.
LARGEST_CLAIM = 500
# One batch may be claimed while the one before is written, so that neither waits for the other.
# With more, claims would have to step over all of those runs.
MOST_UNWRITTEN = LARGEST_BATCH


class Slots:
    """Starts claimed runs, keeps them until they end, and hands their ends to the recorder."""

    def __init__(
        self,
        registry: Registry,
        settings: Settings,
        services: NodeServices,
        recorder: Recorder,
        *,
        on_free_slot: Callable[[], None],
        on_free_permit: Callable[[], None],
    ) -> None:
        """`on_free_permit` is called when a handler has freed a place in a group by itself."""
        self._registry = registry
        self._settings = settings
        self._services = services
        self._recorder = recorder
        self._on_free_slot = on_free_slot
        self._on_free_permit = on_free_permit
        self._running: dict[int, ActiveRun] = {}
        # Runs that the engine has ended, and whose handlers still run.
        self._abandoned: set[ActiveRun] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def busy(self) -> int:
        return len(self._running)

    @property
    def lingering(self) -> int:
        """Handlers and threads that still run, though their run has ended."""
        return len(self._abandoned) + self._services.lingering

    def serves(self, lane: Lane) -> bool:
        return lane.is_served_by(self._registry.served, self._settings.labels)

    def count_free(self) -> int:
        """How many more runs can be started."""
        # All or nothing: a claim of a few jobs costs as much as a large one.
        if self._recorder.unwritten > MOST_UNWRITTEN:
            return 0
        concurrency = self._settings.concurrency
        # What lingers keeps its slot, but at most half of the slots: a job whose handler hangs at
        # every beat must not shut out all others.
        taken = self.busy + min(self.lingering, concurrency // 2)
        return min(concurrency - taken, LARGEST_CLAIM)

    def count_free_by_kind(self) -> dict[str, int]:
        """How many more runs of each kind that has a limit of its own can be started."""
        limits = self._registry.limits
        if not limits:
            return {}
        running = [run.claimed.definition.kind for run in self._running.values()]
        return {kind: most - running.count(kind) for kind, most in limits.items()}

    def start(self, batch: Sequence[HeldRun]) -> None:
        # At 20,000 runs a second a line is expensive: it is not made where it is not shown.
        if log.shows_info():
            log_starts(batch)
        started: list[ActiveRun] = []
        for held in batch:
            self._recorder.in_hand[held.run.id] = held
            if isinstance(held, UnrunnableClaim):
                self._recorder.add([EndedRun(held, Failed(held.error), None)])
            else:
                started.append(self._start_run(held))
        # The loop calls this after the first step of each of these runs.
        asyncio.get_running_loop().call_soon(limit_times, started)

    def _start_run(self, claimed: Claimed) -> ActiveRun:
        run = ActiveRun(
            claimed,
            grace=self._settings.stop_grace,
            services=self._services,
            on_ended=self._on_ended,
        )
        self._running[claimed.run.id] = run
        self._is_idle.clear()
        run.start(self._registry, self._abandoned.discard)
        return run

    def _on_ended(self, run: ActiveRun, ended: EndedRun) -> None:
        self._running.pop(ended.claimed.run.id, None)
        if not self._running:
            self._is_idle.set()
        if run.is_abandoned:
            self._abandoned.add(run)
            self._log_abandoned(run.claimed)
        if ended.recorded is None:
            self._recorder.add([ended])
        else:
            self._recorder.report_recorded(run.claimed, ended.recorded)
            if ended.recorded.group_ids:
                self._on_free_permit()
        self._on_free_slot()

    def _log_abandoned(self, claimed: Claimed) -> None:
        log.get_logger().warning(
            log.RUN_ABANDONED,
            job_id=str(claimed.uid),
            kind=claimed.definition.kind,
            execution_number=claimed.run.number,
            lingering=self.lingering,
        )

    def stop_unwanted(self, run_id: int) -> None:
        """Stop a run that a person has cancelled or released."""
        run = self._running.get(run_id)
        if run is not None:
            run.stop(UNWANTED)

    def stop_all(self, why: Outcome) -> None:
        for run in list(self._running.values()):
            run.stop(why)

    def kill_all(self) -> None:
        """Cancel what runs without recording an end."""
        for run in self._running.values():
            run.kill()

    async def wait_until_idle(self) -> None:
        await self._is_idle.wait()


def limit_times(runs: Sequence[ActiveRun]) -> None:
    for run in runs:
        run.limit_time()
