"""A handler called as a node would call it, without a database."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from evenbeat.app import Evenbeat
from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.definition import define
from evenbeat.core.jobs.model import Cause, Claimed, OpenRun
from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Outcome
from evenbeat.core.runs.settle import Recorded
from evenbeat.engine.runs.active_run import run_handler
from evenbeat.engine.runs.handler_services import NodeServices
from evenbeat.store.jobs.job_inserts import new_job_uid

# Threads that may go on after their run was stopped; a test stops none.
MOST_LINGERING = 1


async def perform(
    app: Evenbeat, what: str | Callable[..., Any], payload: Any = None, *, attempt: int = 1
) -> Outcome:
    """The outcome of one run of a kind, or of a function of the app.

    A payload that would be refused when a job is added raises InvalidInput here; an error of the
    handler becomes the outcome `Failed`.
    """
    kind, given = app.call(what, payload)
    if kind not in app.registry.served:
        served = ", ".join(app.registry.served)
        raise InvalidInput("kind", f"{kind!r} has no handler in this app; served: {served}")
    app.registry[kind].check(given)
    now = datetime.now(UTC)
    run = OpenRun(
        id=attempt,
        number=attempt,
        cause=Cause.SCHEDULE if attempt == 1 else Cause.RETRY,
        beat_at=now,
        attempt=attempt,
        started_at=now,
        token=0,
    )
    claimed = Claimed(
        id=1,
        uid=new_job_uid(now),
        definition=define(kind, payload=given),
        run=run,
        next_beat_at=None,
        plan_version=1,
        runs_so_far=0,
    )
    services = NodeServices(app.settings.secrets_dir, MOST_LINGERING)
    ended = await run_handler(claimed, RunContext(claimed, services), app.registry)
    return ended.outcome if isinstance(ended, Recorded) else ended
