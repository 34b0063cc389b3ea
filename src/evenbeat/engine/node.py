"""A node: joins, runs its loops, drains, and leaves. The one place where tasks are made."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from evenbeat.config import Settings
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.jobs.model import Claimed
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Failed
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.durations import format_duration
from evenbeat.engine.bell import listen_for_wakes
from evenbeat.engine.jobs.group_gate import GroupGate
from evenbeat.engine.jobs.planner import Planner
from evenbeat.engine.ops.janitor import Janitor
from evenbeat.engine.ops.lease_keeper import LeaseKeeper
from evenbeat.engine.runs import runner
from evenbeat.engine.runs.active_run import NODE_STOPS, UNWANTED, ActiveRun
from evenbeat.engine.runs.claimer import LARGEST_CLAIM, Claimer, FreeSlots
from evenbeat.engine.runs.handler_services import NodeServices
from evenbeat.engine.runs.reaper import Reaper
from evenbeat.engine.runs.recorder import EndedRun, Recorder
from evenbeat.engine.runs.run_log_writer import RunLogWriter
from evenbeat.engine.runs.run_watch import RunWatch
from evenbeat.observe import failpoint, log, traces
from evenbeat.observe.metrics import Metrics
from evenbeat.placement.placer import Placer
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import nodes
from evenbeat.store.ops.nodes import Lane
from evenbeat.store.runs.leases import HeldRun, UnrunnableClaim

BACK_OFF = 1.0
# Writing the last ends takes a moment even where runs are given none to finish.
LEAST_PATIENCE = 5.0
# Claims run ahead of what is written by one batch, so that neither waits for the other: it is
# claimed while the one before is written. More would be in the way of the claims, which step over
# whatever runs.
MOST_UNWRITTEN = LARGEST_CLAIM
# What comes by SQL has its first beat within a second.
LONGEST_UNPLANNED = timedelta(milliseconds=800)
# Threads that hang, on a node whose places are few.
FEWEST_LINGERING = 10


class Node:
    """One life of this process as a node. Once it is declared dead it needs a new one."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        settings: Settings,
        *,
        node_id: int,
        toolbox: NodeServices,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._registry = registry
        self._settings = settings
        self.is_dead = asyncio.Event()
        self._running: dict[int, ActiveRun] = {}
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        # Runs that have ended by our word, while their handlers go on.
        self._abandoned: set[ActiveRun] = set()
        self._toolbox = toolbox
        placement = Placer(database, settings.balancing, metrics)
        self._planner = Planner(database, placement)
        self._janitor = Janitor(database, settings, placement)
        self._recorder = Recorder(database, self._on_recorded, metrics, self._planner.note_stopped)
        self._usher = GroupGate(database)
        self._claimer = Claimer(
            database,
            self._recorder,
            node_id=node_id,
            start=self._start,
            room=self._room,
            left=self._left,
            is_served=self._is_served,
            is_instant=registry.is_instant,
            on_grouped=self._usher.bell.ring,
            check_interval=settings.check_interval,
            metrics=metrics,
        )
        metrics.watch_slots(busy=lambda: len(self._running), total=settings.concurrency)
        self._reaper = Reaper(database, self._recorder)
        self._warden = RunWatch(database, self._recorder, node_id=node_id, stop=self._stop)

    async def live(self, stopping: asyncio.Event) -> None:
        """Work until `stopping` is set or the node is dead; then drain, and hand back the rest."""
        await self._claimer.find_lanes()
        try:
            await self._work(stopping)
        finally:
            # Nothing is left after a drain; cut off from the outside, there may be.
            for run in self._running.values():
                run.kill()

    async def _work(self, stopping: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as loops:
            recording = loops.create_task(self._recorder.run())
            working = [
                loops.create_task(loop_forever("listener", self._listen)),
                loops.create_task(loop_forever("claimer", self._claim_and_wait)),
                loops.create_task(loop_forever("reaper", self._reap_and_wait)),
                loops.create_task(loop_forever("usher", self._usher_and_wait)),
                loops.create_task(loop_forever("warden", self._watch_and_wait)),
                loops.create_task(loop_forever("janitor", self._tidy_and_wait)),
                loops.create_task(loop_forever("planner", self._plan_and_wait)),
                loops.create_task(loop_forever("scribe", self._write_log_and_wait)),
            ]
            await wait_for_first(stopping, self.is_dead)
            for task in working:
                task.cancel()
            # A claim that was cut off is done or undone by the server only after a moment: what
            # this node holds is known when that is over.
            await asyncio.wait(working)
            await self._drain()
            recording.cancel()

    async def _listen(self) -> None:
        await listen_for_wakes(self._database.route, self._claimer.bell)

    async def _claim_and_wait(self) -> None:
        await self._claimer.bell.wait(await self._claimer.turn())

    async def _reap_and_wait(self) -> None:
        if await self._reaper.turn():
            self._claimer.bell.ring()
        await asyncio.sleep(self._settings.stale_check_interval.total_seconds())

    async def _usher_and_wait(self) -> None:
        let_in, pause = await self._usher.turn()
        if let_in:
            self._claimer.bell.ring()
        await self._usher.bell.wait(pause)

    async def _watch_and_wait(self) -> None:
        await self._warden.turn()
        await asyncio.sleep(self._settings.check_interval.total_seconds())

    async def _tidy_and_wait(self) -> None:
        pause = await self._janitor.turn()
        await asyncio.sleep(pause.total_seconds())

    async def _plan_and_wait(self) -> None:
        if await self._planner.turn():
            self._claimer.bell.ring()
        pause = min(self._settings.check_interval, LONGEST_UNPLANNED)
        await asyncio.sleep(pause.total_seconds())

    async def _write_log_and_wait(self) -> None:
        await self._toolbox.write_log()
        await asyncio.sleep(self._settings.check_interval.total_seconds())

    def _is_served(self, lane: Lane) -> bool:
        return lane.is_served_by(self._registry.served, self._settings.labels)

    def _room(self) -> FreeSlots:
        unwritten = len(self._recorder.in_hand) - len(self._running)
        concurrency = self._settings.concurrency
        # What lingers keeps its place, but never more than half of them: a job that hangs at every
        # beat must not shut out all others.
        taken = len(self._running) + min(self._lingering, concurrency // 2)
        return FreeSlots(
            waiting=min(concurrency - taken, LARGEST_CLAIM),
            # All or nothing: claims of a few jobs each cost as much as large ones.
            instant=LARGEST_CLAIM if unwritten <= MOST_UNWRITTEN else 0,
        )

    def _left(self) -> dict[str, int]:
        """How many more runs there may be of each kind that has a limit."""
        limits = self._registry.limits
        if not limits:
            return {}
        running = [run.claimed.definition.kind for run in self._running.values()]
        return {kind: most - running.count(kind) for kind, most in limits.items()}

    def _start(self, batch: Sequence[HeldRun]) -> None:
        ended: list[EndedRun] = []
        # A line a run is dear at 20,000 runs a second: not even made where nobody reads it.
        if log.shows_info():
            log_starts(batch)
        is_traced = traces.is_on()
        for held in batch:
            self._recorder.in_hand[held.run.id] = held
            if isinstance(held, UnrunnableClaim):
                ended.append(EndedRun(held, Failed(held.error), None))
            elif self._registry.is_instant(held.definition.kind):
                ended.append(self._run_instantly(held, is_traced))
            else:
                self._begin(held)
        if ended:
            self._recorder.add(ended)

    def _run_instantly(self, claimed: Claimed, is_traced: bool) -> EndedRun:
        began = time.monotonic_ns()
        context = RunContext(claimed, self._toolbox)
        if is_traced:
            with traces.run_span(claimed) as span:
                outcome = span.ended(runner.run_instantly(claimed, context, self._registry))
        else:
            outcome = runner.run_instantly(claimed, context, self._registry)
        # Of whole numbers a duration is made in half the time.
        return EndedRun(claimed, outcome, timedelta(0, 0, (time.monotonic_ns() - began) // 1000))

    def _begin(self, claimed: Claimed) -> None:
        grace, toolbox = self._settings.stop_grace, self._toolbox
        run = ActiveRun(claimed, grace=grace, toolbox=toolbox, on_ended=self._on_ended)
        self._running[claimed.run.id] = run
        self._is_idle.clear()
        run.start(self._registry, self._on_gone)

    def _on_ended(self, run: ActiveRun, ended: EndedRun) -> None:
        self._running.pop(ended.claimed.run.id, None)
        if not self._running:
            self._is_idle.set()
        if run.is_abandoned:
            self._abandoned.add(run)
            log.get_logger().warning(
                log.RUN_ABANDONED,
                job_id=str(run.claimed.uid),
                kind=run.claimed.definition.kind,
                execution_number=run.claimed.run.number,
                lingering=self._lingering,
            )
        if ended.recorded is None:
            self._recorder.add([ended])
        else:
            self._recorder.note(run.claimed, ended.recorded)
            if ended.recorded.group_ids:
                self._usher.bell.ring()
        self._claimer.bell.ring()

    def _on_gone(self, run: ActiveRun) -> None:
        self._abandoned.discard(run)

    @property
    def _lingering(self) -> int:
        return len(self._abandoned) + self._toolbox.lingering

    def _stop(self, run_id: int) -> None:
        """Somebody wants this run stopped."""
        run = self._running.get(run_id)
        if run is not None:
            run.stop(UNWANTED)

    async def _drain(self) -> None:
        """Let runs finish for a while, hand back the rest, and see everything written."""
        patience = self._settings.drain_timeout.total_seconds()
        if not self.is_dead.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_idle.wait(), patience)
        for run in list(self._running.values()):
            run.stop(NODE_STOPS)
        # Within the grace of each: whatever its handler does, a run ends after that.
        await self._is_idle.wait()
        try:
            async with asyncio.timeout(max(patience, LEAST_PATIENCE)):
                await self._recorder.drain()
                # The claim that was cut off when the claimer stopped, if there was one.
                await self._claimer.hand_back_unknown()
                # Of handlers that never wait: those of others were written before their ends.
                await self._toolbox.write_log()
        except (TimeoutError, StoreUnavailable) as error:
            # Whatever could not be written is found by those who bury this node.
            log.loop_failed("drain", error)

    def _on_recorded(self) -> None:
        self._claimer.bell.ring()


async def run(
    database: Database,
    registry: Registry,
    settings: Settings,
    stopping: asyncio.Event,
    on_joined: Callable[[], None] = lambda: None,
    metrics: Metrics | None = None,
) -> None:
    """Be a node until `stopping` is set, through as many lives as it takes."""
    log.get_logger().info(
        log.SCHEDULER_STARTING,
        check_interval=format_duration(settings.check_interval),
        lock_duration=format_duration(settings.lease_duration),
    )
    # Threads that linger outlive the node that began them.
    most_lingering = max(settings.concurrency, FEWEST_LINGERING)
    toolbox = NodeServices(settings.secrets_dir, most_lingering, RunLogWriter(database))
    counted = metrics or Metrics()
    while not stopping.is_set():
        try:
            await join_and_live(database, registry, settings, toolbox, stopping, on_joined, counted)
        except StoreUnavailable as error:
            log.loop_failed("node", error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), BACK_OFF)


async def join_and_live(
    database: Database,
    registry: Registry,
    settings: Settings,
    toolbox: NodeServices,
    stopping: asyncio.Event,
    on_joined: Callable[[], None],
    metrics: Metrics,
) -> None:
    await nodes.open_lanes(database, registry.served)
    name = f"{socket.gethostname()}:{os.getpid()}"
    node_id = await nodes.join_node(
        database,
        name,
        kinds=registry.served,
        labels=settings.labels,
        lease_duration=settings.lease_duration,
    )
    node = Node(database, registry, settings, node_id=node_id, toolbox=toolbox, metrics=metrics)
    loop = asyncio.get_running_loop()
    keeper = LeaseKeeper(
        database.route,
        node_id=node_id,
        lease_duration=settings.lease_duration,
        on_death=lambda: loop.call_soon_threadsafe(node.is_dead.set),
    )
    keeper.start()
    log.get_logger().info(log.NODE_JOINED, node=name, node_id=node_id, kinds=registry.served)
    on_joined()
    try:
        await node.live(stopping)
    finally:
        # The lease is kept until the last run is written: it stops last.
        failpoint.reach("before_leave")
        await asyncio.to_thread(keeper.stop)
        await leave_cluster(database, node_id)
    log.get_logger().info(log.NODE_LEFT, node=name, node_id=node_id)


def log_starts(batch: Sequence[HeldRun]) -> None:
    for held in batch:
        definition = None if isinstance(held, UnrunnableClaim) else held.definition
        log.get_logger().info(
            log.JOB_STARTED,
            job_id=str(held.uid),
            kind=definition and definition.kind,
            source_name=definition and (definition.labels.get("source_name") or definition.name),
            retry_attempt=max(held.run.attempt - 1, 0),
            execution_number=held.run.number,
        )


async def leave_cluster(database: Database, node_id: int) -> None:
    try:
        await nodes.leave(database, node_id)
    except StoreUnavailable as error:
        log.loop_failed("farewell", error)


async def loop_forever(name: str, turn: Callable[[], Awaitable[None]]) -> None:
    """A loop with one guard: whatever a turn raises is told, and the loop goes on."""
    while True:
        try:
            await turn()
        except Exception as error:
            # That the database is away needs no stack trace, least of all once a second.
            log.loop_failed(name, error, with_trace=not isinstance(error, StoreUnavailable))
            await asyncio.sleep(BACK_OFF)


async def wait_for_first(*events: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as waits:
        waiting = [waits.create_task(event.wait()) for event in events]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
