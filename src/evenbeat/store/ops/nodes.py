"""Nodes and lanes: which nodes are alive, and which kinds they serve."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("ops/nodes")


@dataclass(frozen=True, slots=True)
class Lane:
    """A kind, and the labels that a node must carry to be given such jobs."""

    id: int
    kind: str
    runs_on: frozenset[str]

    def is_served_by(self, kinds: Collection[str], labels: Collection[str]) -> bool:
        return self.kind in kinds and self.runs_on <= set(labels)


async def join_node(
    session: Session,
    name: str,
    *,
    kinds: Sequence[str],
    labels: Sequence[str],
    lease_duration: timedelta,
) -> int:
    return await session.fetch_value(
        SQL["join"],
        name=name,
        kinds=list(kinds),
        labels=list(labels),
        lease_seconds=lease_duration.total_seconds(),
    )


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A row of a node, alive or dead."""

    id: int
    name: str
    kinds: tuple[str, ...]
    labels: tuple[str, ...]
    joined_at: datetime
    seen_at: datetime
    alive_until: datetime
    draining_at: datetime | None
    dead_at: datetime | None
    is_alive: bool
    running: int

    @property
    def status(self) -> str:
        if not self.is_alive:
            return "dead"
        return "draining" if self.draining_at else "alive"


async def list_nodes(session: Session, *, dead: int) -> list[StoredNode]:
    """Every node that was not declared dead, and the newest `dead` of the others."""
    return [node_from(row) for row in await session.fetch(SQL["list_nodes"], dead=dead)]


async def drain_node(session: Session, node_id: int, *, is_draining: bool) -> bool:
    """False: there is no such live node."""
    return bool(await session.execute(SQL["drain"], node_id=node_id, is_draining=is_draining))


def node_from(row: asyncpg.Record) -> StoredNode:
    return StoredNode(
        id=row["id"],
        name=row["name"],
        kinds=tuple(row["kinds"]),
        labels=tuple(row["labels"]),
        joined_at=row["joined_at"],
        seen_at=row["seen_at"],
        alive_until=row["alive_until"],
        draining_at=row["draining_at"],
        dead_at=row["dead_at"],
        is_alive=row["is_alive"],
        running=row["running"],
    )


async def find_last_seen(session: Session) -> datetime | None:
    """When any node last renewed its lease."""
    return await session.fetch_value(SQL["last_seen_at"])


async def renew(session: Session, node_id: int, lease_duration: timedelta) -> bool:
    """False: the node was declared dead, and stays so."""
    renewed = await session.fetch_value(
        SQL["renew"], node_id=node_id, lease_seconds=lease_duration.total_seconds()
    )
    return renewed is not None


async def leave(session: Session, node_id: int) -> None:
    await session.execute(SQL["leave"], node_id=node_id)


async def mark_dead_nodes(session: Session) -> list[str]:
    """Declare every node dead whose lease has ended; returns their names."""
    return [row["name"] for row in await session.fetch(SQL["mark_dead"])]


async def find_unswept_nodes(session: Session) -> list[int]:
    """Dead nodes that may still hold runs."""
    return [row["id"] for row in await session.fetch(SQL["unswept"])]


async def mark_swept(session: Session, node_id: int) -> None:
    """Mark a dead node as swept, unless it still holds runs."""
    await session.execute(SQL["mark_swept"], node_id=node_id)


async def count_live_nodes(session: Session) -> int:
    return await session.fetch_value(SQL["count_live_nodes"])


async def open_lanes(session: Session, kinds: Sequence[str], runs_on: Sequence[str] = ()) -> None:
    """Make a lane for each of these kinds, with the labels that their jobs need."""
    await session.execute(SQL["open_lanes"], kinds=list(kinds), runs_on=sorted(set(runs_on)))


async def list_lanes(session: Session) -> list[Lane]:
    rows = await session.fetch(SQL["lanes"])
    return [Lane(row["id"], row["kind"], frozenset(row["runs_on"])) for row in rows]
