"""Nodes: which live, which died lately, and which are to take no more work."""

from collections.abc import Iterable

from evenbeat.control.jobs.validation import unserved_warnings
from evenbeat.core.errors import NotFound
from evenbeat.core.jobs.model import Definition
from evenbeat.core.ops.audit import PYTHON, Actor, NewAuditEntry
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import audit, nodes
from evenbeat.store.ops.nodes import StoredNode

LATELY_DEAD = 20


class Nodes:
    """The nodes of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[StoredNode]:
        """The live nodes, and the last twenty that died."""
        return await nodes.list_nodes(self._database, dead=LATELY_DEAD)

    async def warnings(self, definitions: Iterable[Definition]) -> tuple[str, ...]:
        """Which of these jobs would wait, since no live node runs them."""
        return await unserved_warnings(self._database, definitions)

    async def drain(self, node_id: int, *, by: Actor = PYTHON) -> StoredNode:
        """Let the node finish its runs and claim no more, as before a shutdown."""
        return await self._set_draining(node_id, by, is_draining=True)

    async def undrain(self, node_id: int, *, by: Actor = PYTHON) -> StoredNode:
        """Let the node claim jobs again."""
        return await self._set_draining(node_id, by, is_draining=False)

    async def _set_draining(self, node_id: int, by: Actor, *, is_draining: bool) -> StoredNode:
        action = "drain" if is_draining else "undrain"
        async with self._database.transaction() as session:
            if not await nodes.drain_node(session, node_id, is_draining=is_draining):
                raise NotFound(f"no living node {node_id}")
            note = NewAuditEntry(action, {}, {"node": node_id, "is_draining": is_draining})
            await audit.write_audit(session, [note], by=by)
            found = await nodes.list_nodes(session, dead=0)
        await clock.wake(self._database)
        return next(node for node in found if node.id == node_id)
