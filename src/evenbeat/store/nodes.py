"""The nodes: who is alive, who has died, and what kinds they serve."""

from collections.abc import Sequence
from datetime import timedelta

from evenbeat.store.database import Session
from evenbeat.store.statements import load

SQL = load("nodes")


async def join(
    session: Session, name: str, *, kinds: Sequence[str], lease_duration: timedelta
) -> int:
    return await session.fetch_value(
        SQL["join"], name=name, kinds=list(kinds), lease_seconds=lease_duration.total_seconds()
    )


async def renew(session: Session, node_id: int, lease_duration: timedelta) -> bool:
    """False: the node has been declared dead, and that is for good."""
    renewed = await session.fetch_value(
        SQL["renew"], node_id=node_id, lease_seconds=lease_duration.total_seconds()
    )
    return renewed is not None


async def leave(session: Session, node_id: int) -> None:
    await session.execute(SQL["leave"], node_id=node_id)


async def mark_dead(session: Session) -> list[str]:
    """Declare every node dead whose lease has run out; their names come back."""
    return [row["name"] for row in await session.fetch(SQL["mark_dead"])]


async def bereaved(session: Session) -> list[int]:
    """Dead nodes that still hold runs."""
    return [row["node_id"] for row in await session.fetch(SQL["bereaved"])]


async def count_live(session: Session) -> int:
    return await session.fetch_value(SQL["live"])


async def register_kinds(session: Session, kinds: Sequence[str]) -> dict[str, int]:
    """Make these kinds known, and give every known kind with its number."""
    await session.execute(SQL["register_kinds"], kinds=list(kinds))
    return await known_kinds(session)


async def known_kinds(session: Session) -> dict[str, int]:
    return {row["name"]: row["id"] for row in await session.fetch(SQL["kinds"])}
