"""The reaper: declares silent nodes dead, and settles the runs that they held."""

from evenbeat.core.runs.outcome import Lost
from evenbeat.engine.runs.recorder import EndedRun, Recorder
from evenbeat.observe import failpoint, log
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import nodes
from evenbeat.store.runs import leases


class Reaper:
    """Every node does this. It marks a node dead first: from then on that node cannot claim."""

    def __init__(self, database: Database, recorder: Recorder) -> None:
        self._database = database
        self._recorder = recorder

    async def turn(self) -> int:
        """Settle the runs of dead nodes; returns how many."""
        for name in await nodes.mark_dead_nodes(self._database):
            log.get_logger().warning(log.NODE_LOST, node=name)
        taken = 0
        for node_id in await nodes.find_unswept_nodes(self._database):
            failpoint.reach("marked_dead")
            lost = await leases.list_node_runs(self._database, node_id)
            if lost:
                await self._recorder.write([EndedRun(each, Lost(), None) for each in lost])
            await nodes.mark_swept(self._database, node_id)
            taken += len(lost)
        return taken
