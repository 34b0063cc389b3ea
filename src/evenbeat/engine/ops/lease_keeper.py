"""The lease keeper: renews the node's lease from a thread and a connection of its own.

A handler that blocks the event loop must not cost the node its lease. So this shares nothing with
the loop that runs handlers.
"""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta

from evenbeat.observe import failpoint, log
from evenbeat.store.database.pool import Session, connect
from evenbeat.store.database.route import Route
from evenbeat.store.ops import nodes

RECONNECT_AFTER = 0.5


class LeaseKeeper:
    """Keeps the lease until `stop`; calls `on_death`, from its thread, if the node is dead."""

    def __init__(
        self,
        route: Route,
        *,
        node_id: int,
        lease_duration: timedelta,
        on_death: Callable[[], object],
    ) -> None:
        self._route = route
        self._node_id = node_id
        self._lease_duration = lease_duration
        self._on_death = on_death
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evenbeat-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._keep())

    async def _keep(self) -> None:
        while not self._stopping.is_set():
            try:
                if not await self._renew_until_stopped():
                    self._on_death()
                    return
            except Exception as error:
                # This thread must go on: else the lease lapses, and the node does not know.
                log.loop_failures["keeper"] += 1
                log.get_logger().warning(log.LEASE_NOT_RENEWED, error=str(error))
                await asyncio.to_thread(self._stopping.wait, RECONNECT_AFTER)

    async def _renew_until_stopped(self) -> bool:
        """Renew the lease until `stop`; False if the node was declared dead."""
        connection = await connect(self._route)
        try:
            session = Session(connection, "database")
            while await nodes.renew(session, self._node_id, self._lease_duration):
                failpoint.reach("renewed")
                # A quarter: three renewals in a row may fail before the lease lapses.
                pause = self._lease_duration.total_seconds() / 4
                if await asyncio.to_thread(self._stopping.wait, pause):
                    return True
            return False
        finally:
            connection.terminate()
