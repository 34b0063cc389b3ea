"""Probes: is the process alive, is it ready for requests. Open to everyone."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from evenbeat.app import Evenbeat
from evenbeat.core.balance.plan_records import BalanceFigures
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.ops.figures import ScheduleLag
from evenbeat.web.auth import open_to_all

router = APIRouter(tags=["probes"], dependencies=[open_to_all()])


# Async without an await: FastAPI calls a plain function in a thread, at 150 µs a request.
async def find_request_app(request: Request) -> Evenbeat:
    return request.app.state.evenbeat


App = Annotated[Evenbeat, Depends(find_request_app)]


@router.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get("/readyz", responses={503: {"description": "not ready, and why"}})
async def readyz(app: App, response: Response) -> dict[str, Any]:
    """The database answers, has the schema this version needs, and the schedule is kept."""
    checks, figures = await run_checks(app)
    is_ready = are_passed(checks)
    response.status_code = 200 if is_ready else 503
    return {"status": "ready" if is_ready else "not ready", "checks": checks, "figures": figures}


async def run_checks(app: Evenbeat) -> tuple[dict[str, str], dict[str, Any]]:
    """What must be "ok", and figures besides. No names of jobs: the probes need no sign-in."""
    try:
        schema = await app.schema_status()
        if not schema.is_current:
            advice = "not migrated: run `evenbeat db migrate`"
            return {"database": "ok", "schema": advice, "schedule": "unknown"}, {}
        lag, balance = await app.lag(), await app.balance.figures()
    except StoreUnavailable as error:
        return {"database": str(error), "schema": "unknown", "schedule": "unknown"}, {}
    schedule = check_schedule(lag, app.settings.ready_lag)
    figures = lag_figures(lag) | evenness_figures(balance, app.settings.score_threshold)
    return {"database": "ok", "schema": "ok", "schedule": schedule}, figures


def are_passed(checks: Mapping[str, str]) -> bool:
    return all(check == "ok" for check in checks.values())


def check_schedule(lag: ScheduleLag, most: timedelta) -> str:
    """Counts jobs that a living node serves: a job that no node serves would be late for ever."""
    if lag.schedule <= most:
        return "ok"
    late = f"a job is {lag.schedule.total_seconds():.0f} s late, and {in_seconds(most)} are allowed"
    return late if lag.live_nodes else f"no node is alive, and {late}"


def in_seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"


def lag_figures(lag: ScheduleLag) -> dict[str, Any]:
    return {
        "lag_seconds": lag.served.total_seconds(),
        "unserved_lag_seconds": lag.unserved.total_seconds(),
        "live_nodes": lag.live_nodes,
        "seconds_without_a_node": None if lag.silent is None else lag.silent.total_seconds(),
    }


def evenness_figures(balance: BalanceFigures | None, threshold: float) -> dict[str, Any]:
    """Uneven load is shown, and does not make a process unready."""
    if balance is None:
        return {"distribution": "unknown", "distribution_score": None}
    score = balance.score.score
    uneven = f"uneven: the score is {score:.2f}, below {threshold:g}"
    verdict = "ok" if score >= threshold else uneven
    return {"distribution": verdict, "distribution_score": round(score, 4)}
