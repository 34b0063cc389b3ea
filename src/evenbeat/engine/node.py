"""A node: joins, runs its loops, drains, and leaves. The one place where loops are started."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from datetime import timedelta

from evenbeat.config import Settings
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.runs.registry import Registry
from evenbeat.core.time.durations import format_duration
from evenbeat.engine.bell import Bell, listen_for_wakes
from evenbeat.engine.jobs.group_gate import GroupGate
from evenbeat.engine.jobs.planner import Planner
from evenbeat.engine.ops.janitor import Janitor
from evenbeat.engine.ops.lease_keeper import LeaseKeeper
from evenbeat.engine.runs.active_run import NODE_STOPS
from evenbeat.engine.runs.claimer import Claimer
from evenbeat.engine.runs.handler_services import NodeServices
from evenbeat.engine.runs.reaper import Reaper
from evenbeat.engine.runs.recorder import Recorder
from evenbeat.engine.runs.run_log_writer import RunLogWriter
from evenbeat.engine.runs.run_watch import RunWatch
from evenbeat.engine.runs.slots import Slots
from evenbeat.observe import failpoint, log
from evenbeat.observe.metrics import Metrics
from evenbeat.placement.placer import Placer
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import nodes

BACK_OFF = 1.0
# Writing the last ends takes a moment, even where runs are given no time to finish.
LEAST_PATIENCE = 5.0
# A job that comes by SQL has its first beat within a second.
LONGEST_UNPLANNED = timedelta(milliseconds=800)
# How many threads may hang on a node that has few slots.
FEWEST_LINGERING = 10

# One step of a loop, and the pause after it.
Step = Callable[[], Awaitable[None]]


class Node:
    """One life of this process as a node. Once it is declared dead it needs a new one."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        settings: Settings,
        *,
        node_id: int,
        services: NodeServices,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._settings = settings
        self._services = services
        self.is_dead = asyncio.Event()
        # Rung when there may be something to claim: a job is due, or a slot is free.
        self._bell = Bell()
        placement = Placer(database, settings.balancing, metrics)
        self._planner = Planner(database, placement)
        self._janitor = Janitor(database, settings, placement)
        self._group_gate = GroupGate(database)
        self._recorder = Recorder(
            database,
            metrics,
            on_recorded=self._bell.ring,
            on_stopped=self._planner.note_stopped,
        )
        self._slots = Slots(
            registry,
            settings,
            services,
            self._recorder,
            on_free_slot=self._bell.ring,
            on_free_permit=self._group_gate.bell.ring,
        )
        self._claimer = Claimer(
            database,
            self._recorder,
            self._slots,
            node_id=node_id,
            bell=self._bell,
            gate_bell=self._group_gate.bell,
            check_interval=settings.check_interval,
            metrics=metrics,
        )
        self._reaper = Reaper(database, self._recorder)
        self._run_watch = RunWatch(
            database, self._recorder, node_id=node_id, stop=self._slots.stop_unwanted
        )
        metrics.watch_slots(busy=lambda: self._slots.busy, total=settings.concurrency)

    async def live(self, stopping: asyncio.Event) -> None:
        """Work until `stopping` is set or the node is dead; then drain, and hand back the rest."""
        await self._claimer.find_lanes()
        try:
            await self._work(stopping)
        finally:
            # After a drain nothing runs any more. If this task was cancelled, something may.
            self._slots.kill_all()

    async def _work(self, stopping: asyncio.Event) -> None:
        steps: dict[str, Step] = {
            "listener": self._listen,
            "claimer": self._claim,
            "reaper": self._reap,
            "group_gate": self._let_in,
            "run_watch": self._watch_runs,
            "janitor": self._tidy,
            "planner": self._plan,
            "run_log_writer": self._write_log,
        }
        async with asyncio.TaskGroup() as loops:
            recording = loops.create_task(self._recorder.run())
            working = [loops.create_task(loop_forever(name, step)) for name, step in steps.items()]
            await wait_for_first(stopping, self.is_dead)
            for task in working:
                task.cancel()
            # The server commits or undoes a cancelled claim only after a moment. Once all loops
            # have ended, the database says what this node holds.
            await asyncio.wait(working)
            await self._drain()
            recording.cancel()

    async def _listen(self) -> None:
        await listen_for_wakes(self._database.route, self._bell)

    async def _claim(self) -> None:
        await self._bell.wait_at_most(await self._claimer.turn())

    async def _reap(self) -> None:
        if await self._reaper.turn():
            self._bell.ring()
        await sleep(self._settings.stale_check_interval)

    async def _let_in(self) -> None:
        let_in, pause = await self._group_gate.turn()
        if let_in:
            self._bell.ring()
        await self._group_gate.bell.wait_at_most(pause)

    async def _watch_runs(self) -> None:
        await self._run_watch.turn()
        await sleep(self._settings.check_interval)

    async def _tidy(self) -> None:
        await sleep(await self._janitor.turn())

    async def _plan(self) -> None:
        if await self._planner.turn():
            self._bell.ring()
        await sleep(min(self._settings.check_interval, LONGEST_UNPLANNED))

    async def _write_log(self) -> None:
        await self._services.write_log()
        await sleep(self._settings.check_interval)

    async def _drain(self) -> None:
        """Let runs finish for a while, hand back the rest, and wait until all ends are written."""
        patience = self._settings.drain_timeout.total_seconds()
        if not self.is_dead.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._slots.wait_until_idle(), patience)
        self._slots.stop_all(NODE_STOPS)
        # Each run ends within its grace, whatever its handler does.
        await self._slots.wait_until_idle()
        try:
            async with asyncio.timeout(max(patience, LEAST_PATIENCE)):
                await self._recorder.drain()
                # The claim that was cancelled with the claimer, if there was one.
                await self._claimer.hand_back_unknown()
                # The lines of runs that were stopped while their lines were written.
                await self._services.write_log()
        except (TimeoutError, StoreUnavailable) as error:
            # What could not be written is taken over by the node that finds this one dead.
            log.loop_failed("drain", error)


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
    # One for all lives: threads that hang outlive the node that started them.
    most_lingering = max(settings.concurrency, FEWEST_LINGERING)
    services = NodeServices(settings.secrets_dir, most_lingering, RunLogWriter(database))
    metrics = metrics or Metrics()
    while not stopping.is_set():
        try:
            await join_and_live(
                database, registry, settings, services, stopping, on_joined, metrics
            )
        except StoreUnavailable as error:
            log.loop_failed("node", error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), BACK_OFF)


async def join_and_live(
    database: Database,
    registry: Registry,
    settings: Settings,
    services: NodeServices,
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
    node = Node(database, registry, settings, node_id=node_id, services=services, metrics=metrics)
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
        # The keeper stops last: the lease is needed until the last run is written.
        failpoint.reach("before_leave")
        await asyncio.to_thread(keeper.stop)
        await leave_cluster(database, node_id)
    log.get_logger().info(log.NODE_LEFT, node=name, node_id=node_id)


async def leave_cluster(database: Database, node_id: int) -> None:
    try:
        await nodes.leave(database, node_id)
    except StoreUnavailable as error:
        log.loop_failed("farewell", error)


async def loop_forever(name: str, step: Step) -> None:
    """Repeat a step for ever. An error of a step is logged and counted, and the loop goes on."""
    while True:
        try:
            await step()
        except Exception as error:
            # No stack trace while the database is away: it would be logged once a second.
            log.loop_failed(name, error, with_trace=not isinstance(error, StoreUnavailable))
            await asyncio.sleep(BACK_OFF)


async def sleep(pause: timedelta) -> None:
    await asyncio.sleep(pause.total_seconds())


async def wait_for_first(*events: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as waits:
        waiting = [waits.create_task(event.wait()) for event in events]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
