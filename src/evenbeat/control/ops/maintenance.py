"""Maintenance: one switch that keeps all nodes from starting runs."""

from dataclasses import asdict

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.payload import check_text
from evenbeat.core.limits import LONGEST_REASON
from evenbeat.core.ops.audit import PYTHON, Actor, NewAuditEntry, find_differences
from evenbeat.store.database import clock
from evenbeat.store.database.pool import Database, Session
from evenbeat.store.ops import audit, maintenance
from evenbeat.store.ops.maintenance import Maintenance


class MaintenanceSwitch:
    """While it is on, nothing is claimed: no beat, no retry, no run by hand.

    Runs that have begun go on, and their ends are written. Beats that come due wait; once the
    switch is off, each job catches up by its own `catch_up`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def on(self, reason: str, *, by: Actor = PYTHON) -> Maintenance:
        """Start nothing from now on. A second call replaces the reason."""
        check_text(reason, "reason")
        if not 1 <= len(reason) <= LONGEST_REASON:
            raise InvalidInput("reason", f"must have 1 to {LONGEST_REASON} characters")
        async with self._database.transaction() as session:
            await maintenance.lock_maintenance(session)
            before = await maintenance.read_maintenance(session)
            await maintenance.switch_on(session, reason, by=by)
            after = await maintenance.read_maintenance(session)
            assert after is not None  # noqa: S101 - just written
            await write_maintenance_note(session, "maintenance on", before, after, by)
        return after

    async def off(self, *, by: Actor = PYTHON) -> None:
        """Let runs start again. If it is off already, nothing is written to the audit."""
        async with self._database.transaction() as session:
            await maintenance.lock_maintenance(session)
            before = await maintenance.read_maintenance(session)
            if before is None:
                return
            await maintenance.switch_off(session)
            await write_maintenance_note(session, "maintenance off", before, None, by)
        await clock.wake(self._database)

    async def status(self) -> Maintenance | None:
        """The switch as it is, or None while it is off."""
        return await maintenance.read_maintenance(self._database)


async def write_maintenance_note(
    session: Session,
    action: str,
    before: Maintenance | None,
    after: Maintenance | None,
    by: Actor,
) -> None:
    sides = find_differences(*(asdict(side) if side else {} for side in (before, after)))
    await audit.write_audit(session, [NewAuditEntry(action, *sides)], by=by)
