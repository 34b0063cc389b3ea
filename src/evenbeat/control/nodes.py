"""Nodes as people see them: who lives, who died lately, and who is to rest."""

from collections.abc import Iterable
from dataclasses import replace

from evenbeat.core.audit import PYTHON, Actor, Note
from evenbeat.core.errors import NotFound
from evenbeat.core.model import Job
from evenbeat.core.registry import SWITCHES, not_served
from evenbeat.store import audit, clock, nodes
from evenbeat.store.database import Database
from evenbeat.store.nodes import StoredNode

LATELY_DEAD = 20


class Nodes:
    """The nodes of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[StoredNode]:
        """Those that live, and the last that died."""
        return await nodes.all_of_them(self._database, dead=LATELY_DEAD)

    async def warnings(self, kinds: Iterable[str]) -> list[str]:
        """A sentence for each of these kinds that a node serves only if it is told to, where none
        is. Of other kinds it is expected that somebody serves them, and nobody is asked."""
        asked = sorted(set(kinds) & SWITCHES.keys())
        if not asked:
            return []
        found = await nodes.all_of_them(self._database, dead=0)
        served = {kind for node in found if node.is_alive for kind in node.kinds}
        return [not_served(kind) for kind in asked if kind not in served]

    async def warned(self, job: Job) -> Job:
        """A new job, with a warning if it waits for a node that nobody has started."""
        return replace(job, warnings=(*job.warnings, *await self.warnings([job.definition.kind])))

    async def drain(self, node_id: int, *, by: Actor = PYTHON) -> StoredNode:
        """Let it finish what it runs, and give it nothing more: as before it is taken down."""
        return await self._switch(node_id, by, is_draining=True)

    async def undrain(self, node_id: int, *, by: Actor = PYTHON) -> StoredNode:
        """Give it work again."""
        return await self._switch(node_id, by, is_draining=False)

    async def _switch(self, node_id: int, by: Actor, *, is_draining: bool) -> StoredNode:
        action = "drain" if is_draining else "undrain"
        async with self._database.transaction() as session:
            if not await nodes.drain(session, node_id, is_draining=is_draining):
                raise NotFound(f"no living node {node_id}")
            note = Note(action, {}, {"node": node_id, "is_draining": is_draining})
            await audit.write(session, [note], by=by)
            found = await nodes.all_of_them(session, dead=0)
        await clock.wake(self._database)
        return next(node for node in found if node.id == node_id)
