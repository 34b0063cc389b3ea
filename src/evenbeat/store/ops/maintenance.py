"""The maintenance switch: one row while it is on."""

from dataclasses import dataclass
from datetime import datetime

from evenbeat.core.ops.audit import Actor
from evenbeat.store.database.pool import Session
from evenbeat.store.database.statements import load_statements

SQL = load_statements("ops/maintenance")


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Since when no run is started, why, and who switched it on."""

    since: datetime
    reason: str
    actor: str


async def lock_maintenance(session: Session) -> None:
    await session.execute(SQL["lock"])


async def switch_on(session: Session, reason: str, *, by: Actor) -> None:
    await session.execute(SQL["switch_on"], reason=reason, actor=by.name)


async def switch_off(session: Session) -> None:
    await session.execute(SQL["switch_off"])


async def read_maintenance(session: Session) -> Maintenance | None:
    """None: maintenance is off."""
    row = await session.fetch_row(SQL["status"])
    return None if row is None else Maintenance(row["since"], row["reason"], row["actor"])
