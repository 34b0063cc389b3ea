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
from evenbeat.core.outcome import Failed
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
from evenbeat.store.leases import Broken, Held

BACK_OFF = 1.0
# Writing the last ends takes a moment even where runs are given none to finish.
LEAST_PATIENCE = 5.0


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
        # Runs from their claim until their end is written.
        self._in_hand: set[int] = set()
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
                in_hand=lambda: self._in_hand,
                check_interval=self._settings.check_interval,
            )
            async with asyncio.TaskGroup() as loops:
                recording = loops.create_task(self._recorder.run())
                working = [
                    loops.create_task(forever("listener", self._listen)),
                    loops.create_task(forever("claimer", self._claim_and_wait)),
                    loops.create_task(forever("reaper", self._reap_and_wait)),
                ]
                await first_of(stopping, self.is_dead)
                for task in working:
                    task.cancel()
                await self._drain()
                recording.cancel()

    async def _listen(self) -> None:
        await listen(self._database.url, self._claimer.bell)

    async def _claim_and_wait(self) -> None:
        await self._claimer.bell.wait(await self._claimer.turn())

    async def _reap_and_wait(self) -> None:
        if await self._reaper.turn():
            self._claimer.bell.ring()
        await asyncio.sleep(self._settings.stale_check_interval.total_seconds())

    def _free_places(self) -> int:
        return self._settings.concurrency - len(self._running)

    def _start(self, runs: asyncio.TaskGroup, claimed: Held) -> None:
        self._in_hand.add(claimed.run.id)
        task = runs.create_task(self._run(claimed))
        self._running.add(task)
        task.add_done_callback(self._on_ended)

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._claimer.bell.ring()

    async def _run(self, claimed: Held) -> None:
        if isinstance(claimed, Broken):
            self._recorder.add(Ended(claimed, Failed(claimed.error), None))
            return
        log.get_logger().debug(
            log.JOB_STARTED, job_id=str(claimed.uid), execution_number=claimed.run.number
        )
        began = time.monotonic()
        outcome = await runner.run(claimed, self._registry)
        spent = timedelta(seconds=time.monotonic() - began)
        self._recorder.add(Ended(claimed, outcome, spent))

    async def _drain(self) -> None:
        """Let runs finish for a while, hand back the rest, and see everything written."""
        patience = self._settings.drain_timeout.total_seconds()
        if self._running and not self.is_dead.is_set():
            await asyncio.wait(self._running, timeout=patience)
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        try:
            async with asyncio.timeout(max(patience, LEAST_PATIENCE)):
                await self._recorder.drain()
                # The claim that was cut off when the claimer stopped, if there was one.
                await self._claimer.disown()
        except (TimeoutError, StoreUnavailable) as error:
            # Whatever could not be written is found by those who bury this node.
            log.get_logger().warning(log.LOOP_FAILED, loop="drain", error=str(error))

    def _on_recorded(self, batch: Sequence[Ended]) -> None:
        self._in_hand.difference_update(ended.claimed.run.id for ended in batch)
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
        try:
            await live_once(database, registry, settings, stopping, on_joined)
        except StoreUnavailable as error:
            log.get_logger().warning(log.LOOP_FAILED, loop="node", error=str(error))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), BACK_OFF)


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
            # That the database is away needs no stack trace, least of all once a second.
            is_ours = not isinstance(error, StoreUnavailable)
            log.get_logger().warning(log.LOOP_FAILED, loop=name, error=str(error), exc_info=is_ours)
            await asyncio.sleep(BACK_OFF)


async def first_of(*events: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as waits:
        waiting = [waits.create_task(event.wait()) for event in events]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
