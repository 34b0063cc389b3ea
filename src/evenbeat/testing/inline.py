"""A node without loops: it runs due jobs one after the other, in the caller's own task."""

import asyncio
import secrets
from datetime import timedelta

from evenbeat.app import Evenbeat
from evenbeat.core.jobs.model import HeldRun, Run, UnrunnableClaim
from evenbeat.core.runs.outcome import Failed
from evenbeat.engine.jobs.group_gate import GroupGate
from evenbeat.engine.runs.active_run import ActiveRun
from evenbeat.engine.runs.handler_services import NodeServices
from evenbeat.engine.runs.recorder import EndedRun, Recorder
from evenbeat.engine.runs.run_log_writer import RunLogWriter
from evenbeat.observe.metrics import Metrics
from evenbeat.store.jobs import groups
from evenbeat.store.jobs.jobs import DefinitionCache
from evenbeat.store.ops import nodes
from evenbeat.store.runs import leases, runs

NAME = "inline"
# Renewed before every use. Long enough for stepping through a handler with a debugger.
LEASE = timedelta(hours=1)
# A job that is due again at once would run for ever.
MOST_RUNS = 10_000


class InlineNode:
    """Claims, runs and records by the same statements and the same code as any node."""

    def __init__(self, app: Evenbeat) -> None:
        self._app = app
        self._database = app.database
        self._recorder = Recorder(self._database, Metrics())
        self._group_gate = GroupGate(self._database)
        self._definitions = DefinitionCache()
        log_writer = RunLogWriter(self._database)
        self._services = NodeServices(app.settings.secrets_dir, MOST_RUNS, log_writer)
        self._node_id: int | None = None

    async def run_due(self) -> list[Run]:
        """Run until nothing is due at this instant; the runs in the order of their ends."""
        ran: list[Run] = []
        while held := await self._claim():
            ran += [await self._run(each) for each in held]
            if len(ran) > MOST_RUNS:
                raise RuntimeError(
                    f"more than {MOST_RUNS:,} runs at one instant: is a job due again at once?"
                )
        return ran

    async def next_in(self, horizon: timedelta) -> timedelta | None:
        """How long until a job is due or its group has room, within this time."""
        lanes = await self._lanes()
        coming = await leases.find_next_due(self._database, lanes, horizon=horizon)
        ready_in = await groups.next_ready_in(self._database)
        waits = [*coming.waits(), *([] if ready_in is None else [ready_in])]
        return min((wait for wait in waits if wait <= horizon), default=None)

    async def leave(self) -> None:
        if self._node_id is not None:
            await nodes.leave(self._database, self._node_id)
            self._node_id = None

    async def _claim(self) -> list[HeldRun]:
        """At most one job of each lane, in order; jobs of groups only if there is no other."""
        node_id = await self._join()
        places = dict.fromkeys(await self._lanes(), 1)
        await self._group_gate.turn()
        for claim in (leases.claim_due, leases.claim_grouped):
            held = await claim(
                self._database,
                node_id,
                token=secrets.randbits(62),
                places=places,
                definitions=self._definitions,
            )
            if held:
                return sorted(held, key=lambda each: (each.turn_at or each.run.started_at, each.id))
        return []

    async def _join(self) -> int:
        if self._node_id is None or not await nodes.renew(self._database, self._node_id, LEASE):
            settings, served = self._app.settings, self._app.registry.served
            await nodes.open_lanes(self._database, served)
            self._node_id = await nodes.join_node(
                self._database, NAME, kinds=served, labels=settings.labels, lease_duration=LEASE
            )
        return self._node_id

    async def _lanes(self) -> list[int]:
        served, labels = self._app.registry.served, self._app.settings.labels
        lanes = await nodes.list_lanes(self._database)
        return [lane.id for lane in lanes if lane.is_served_by(served, labels)]

    async def _run(self, held: HeldRun) -> Run:
        ended = await self._run_to_end(held)
        await self._recorder.write([ended])
        return await runs.find_run(self._database, held.run.id)

    async def _run_to_end(self, held: HeldRun) -> EndedRun:
        if isinstance(held, UnrunnableClaim):
            return EndedRun(held, Failed(held.error), None)
        end: asyncio.Future[EndedRun] = asyncio.get_running_loop().create_future()
        run = ActiveRun(
            held,
            grace=self._app.settings.stop_grace,
            services=self._services,
            on_ended=lambda _, ended: end.set_result(ended),
        )
        run.start(self._app.registry, on_gone=lambda _: None)
        run.limit_time()
        try:
            return await end
        except asyncio.CancelledError:
            run.kill()
            raise
