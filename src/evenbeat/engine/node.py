"""A node: joins, runs its loops, drains, and leaves. The one place where tasks are made."""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from evenbeat.config import Settings
from evenbeat.core import catchup
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.model import Claimed
from evenbeat.core.outcome import Skipped
from evenbeat.core.registry import Registry
from evenbeat.engine import runner
from evenbeat.engine.bell import listen
from evenbeat.engine.claimer import Claimer
from evenbeat.engine.keeper import Keeper
from evenbeat.engine.reaper import Reaper
from evenbeat.engine.recorder import Ended, Recorder
from evenbeat.observe import log
from evenbeat.store import nodes
from evenbeat.store.database import Database

BACK_OFF = 1.0


class Node:
    """One life of this process as a node. Once it is declared dead it needs a new one."""

    def __init__(
        self, database: Database, registry: Registry, settings: Settings, node_id: int
    ) -> None:
        self._database = database
        self._registry = registry
        self._settings = settings
        self.id = node_id
        self.is_dead = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._recorder = Recorder(database, self._on_recorded)
        self._reaper = Reaper(database)

    async def live(self, stopping: asyncio.Event, kind_ids: list[int]) -> None:
        """Work until `stopping` is set or the node is dead; then drain, and hand back the rest."""
        async with asyncio.TaskGroup() as runs:
            self._claimer = Claimer(
                self._database,
                node_id=self.id,
                kind_ids=kind_ids,
                start=lambda claimed: self._start(runs, claimed),
                free_places=self._free_places,
                check_interval=self._settings.check_interval,
            )
            async with asyncio.TaskGroup() as loops:
                recording = loops.create_task(self._recorder.run())
                working = [
                    loops.create_task(listen(self._database.url, self._claimer.bell)),
                    loops.create_task(forever("claimer", self._claim_and_wait)),
                    loops.create_task(forever("reaper", self._reap_and_wait)),
                ]
                await first_of(stopping, self.is_dead)
                for task in working:
                    task.cancel()
                await self._drain()
                recording.cancel()

    async def _claim_and_wait(self) -> None:
        await self._claimer.bell.wait(await self._claimer.turn())

    async def _reap_and_wait(self) -> None:
        if await self._reaper.turn():
            self._claimer.bell.ring()
        await asyncio.sleep(self._settings.stale_check_interval.total_seconds())

    def _free_places(self) -> int:
        return self._settings.concurrency - len(self._running)

    def _start(self, runs: asyncio.TaskGroup, claimed: Claimed) -> None:
        task = runs.create_task(self._run(claimed))
        self._running.add(task)
        task.add_done_callback(self._on_ended)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._claimer.bell.ring()

    async def _run(self, claimed: Claimed) -> None:
        log.get_logger().debug(
            log.JOB_STARTED, job_id=str(claimed.uid), execution_number=claimed.run.number
        )
        began = time.monotonic()
        too_late: Skipped | None = catchup.decide(claimed, claimed.run.started_at)
        outcome = too_late or await runner.run(claimed, self._registry)
        spent = timedelta(seconds=time.monotonic() - began)
        self._recorder.add(Ended(claimed, outcome, spent))

    async def _drain(self) -> None:
        """Let runs finish for a while, hand back the rest, and see everything written."""
        if self._running and not self.is_dead.is_set():
            patience = self._settings.drain_timeout.total_seconds()
            await asyncio.wait(self._running, timeout=patience)
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        await self._recorder.drain()

    def _on_recorded(self, count: int) -> None:
        self._claimer.bell.ring()


async def run(
    database: Database,
    registry: Registry,
    settings: Settings,
    stopping: asyncio.Event,
    on_joined: Callable[[], None] = lambda: None,
) -> None:
    """Be a node until `stopping` is set, through as many lives as it takes."""
    while not stopping.is_set():
        await live_once(database, registry, settings, stopping, on_joined)


async def live_once(
    database: Database,
    registry: Registry,
    settings: Settings,
    stopping: asyncio.Event,
    on_joined: Callable[[], None],
) -> None:
    known = await nodes.register_kinds(database, list(registry))
    name = f"{socket.gethostname()}:{os.getpid()}"
    node_id = await nodes.join(
        database, name, kinds=list(registry), lease_duration=settings.lease_duration
    )
    node = Node(database, registry, settings, node_id)
    loop = asyncio.get_running_loop()
    keeper = Keeper(
        database.url,
        node_id=node_id,
        lease_duration=settings.lease_duration,
        on_death=lambda: loop.call_soon_threadsafe(node.is_dead.set),
    )
    keeper.start()
    log.get_logger().info(log.NODE_JOINED, node=name, node_id=node_id, kinds=list(registry))
    on_joined()
    try:
        await node.live(stopping, [known[kind] for kind in registry])
    finally:
        # The lease is kept until the last run is written: it stops last.
        await asyncio.to_thread(keeper.stop)
        await farewell(database, node_id)
    log.get_logger().info(log.NODE_LEFT, node=name, node_id=node_id)


async def farewell(database: Database, node_id: int) -> None:
    try:
        await nodes.leave(database, node_id)
    except StoreUnavailable as error:
        log.get_logger().warning(log.LOOP_FAILED, loop="farewell", error=str(error))


async def forever(name: str, turn: Callable[[], Awaitable[None]]) -> None:
    """A loop with one guard: whatever a turn raises is told, and the loop goes on."""
    while True:
        try:
            await turn()
        except Exception as error:
            log.get_logger().warning(log.LOOP_FAILED, loop=name, error=str(error), exc_info=True)
            await asyncio.sleep(BACK_OFF)


async def first_of(*events: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as waits:
        waiting = [waits.create_task(event.wait()) for event in events]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
