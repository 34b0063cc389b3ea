"""Nodes as people see them: who lives, who died lately, and who is to rest."""

from collections.abc import Iterable

from evenbeat.core.audit import PYTHON, Actor, Note
from evenbeat.core.errors import NotFound
from evenbeat.core.model import Definition
from evenbeat.core.registry import SWITCHES, not_served
from evenbeat.store import audit, clock, nodes
from evenbeat.store.database import Database, Session
from evenbeat.store.nodes import StoredNode

LATELY_DEAD = 20


class Nodes:
    """The nodes of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[StoredNode]:
        """Those that live, and the last that died."""
        return await nodes.all_of_them(self._database, dead=LATELY_DEAD)

    async def warnings(self, definitions: Iterable[Definition]) -> tuple[str, ...]:
        """Which of these jobs would wait for a node that nobody has started."""
        return await unserved(self._database, definitions)

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


async def unserved(session: Session, definitions: Iterable[Definition]) -> tuple[str, ...]:
    """A sentence for each kind of these jobs that a node serves only if it is told to, where none
    that they may run on is. Of other kinds it is expected that somebody serves them, and nobody
    is asked."""
    found = (each for each in definitions if each.kind in SWITCHES)
    asked = sorted({(each.kind, tuple(sorted(set(each.runs_on)))) for each in found})
    if not asked:
        return ()
    living = [node for node in await nodes.all_of_them(session, dead=0) if node.is_alive]
    return tuple(
        not_served(kind, runs_on)
        for kind, runs_on in asked
        if not any(is_given_to(node, kind, runs_on) for node in living)
    )


def is_given_to(node: StoredNode, kind: str, runs_on: Iterable[str]) -> bool:
    return kind in node.kinds and set(runs_on) <= set(node.labels)
