"""The reaper: declares silent nodes dead, and takes over the runs they had in hand."""

from evenbeat.core.outcome import Lost
from evenbeat.engine.recorder import Ended, write
from evenbeat.observe import log
from evenbeat.store import leases, nodes
from evenbeat.store.database import Database


class Reaper:
    """Every node is a reaper: marking dead comes first, so a lease cannot be born meanwhile."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def turn(self) -> int:
        """Bury the dead; says how many runs were taken over."""
        for name in await nodes.mark_dead(self._database):
            log.get_logger().warning(log.NODE_LOST, node=name)
        taken = 0
        for node_id in await nodes.bereaved(self._database):
            lost = await leases.in_hand(self._database, node_id)
            if lost:
                await write(self._database, [Ended(each, Lost(), None) for each in lost])
            taken += len(lost)
        return taken
