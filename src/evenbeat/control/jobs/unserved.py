"""Jobs that no living node would run, and the warning that says so."""

from collections.abc import Iterable

from evenbeat.core.jobs.model import Definition
from evenbeat.core.runs.registry import SWITCHES, describe_unserved_kind
from evenbeat.store.database.pool import Session
from evenbeat.store.ops import nodes
from evenbeat.store.ops.nodes import StoredNode


async def unserved_warnings(session: Session, definitions: Iterable[Definition]) -> tuple[str, ...]:
    """A sentence for each kind of these jobs that a node serves only if it is told to, where none
    that they may run on is. Of other kinds it is expected that somebody serves them, and nobody
    is asked."""
    found = (each for each in definitions if each.kind in SWITCHES)
    asked = sorted({(each.kind, tuple(sorted(set(each.runs_on)))) for each in found})
    if not asked:
        return ()
    living = [node for node in await nodes.list_nodes(session, dead=0) if node.is_alive]
    return tuple(
        describe_unserved_kind(kind, runs_on)
        for kind, runs_on in asked
        if not any(can_node_run(node, kind, runs_on) for node in living)
    )


def can_node_run(node: StoredNode, kind: str, runs_on: Iterable[str]) -> bool:
    return kind in node.kinds and set(runs_on) <= set(node.labels)
