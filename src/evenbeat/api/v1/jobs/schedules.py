"""The route that previews a schedule."""

from fastapi import APIRouter

from evenbeat.api.v1.jobs.wire.schedule import PreviewOut, ScheduleIn
from evenbeat.core.ops.access import Role
from evenbeat.core.time.preview import preview_timetable
from evenbeat.web.auth import needs
from evenbeat.web.probes import App

router = APIRouter(prefix="/api/v1/schedule", tags=["schedules"], dependencies=[needs(Role.VIEWER)])


@router.post("/preview")
async def preview_schedule(body: ScheduleIn, app: App) -> PreviewOut:
    """A schedule in words, its next beats, and what the next clock change does to it."""
    return PreviewOut.from_core(preview_timetable(body.to_core(), await app.now(), body.count))
