"""/actuator: health and info, where the clients of tasks look for them. No token is needed."""

from typing import Any

from fastapi import APIRouter, Response

from evenbeat.web.auth import open_to_all
from evenbeat.web.probes import App, are_passed, run_checks

GROUPS = ["liveness", "readiness"]
WORDS = {"ok": "UP", "unknown": "UNKNOWN"}
DOWN: dict[int | str, dict[str, Any]] = {503: {"description": "not ready, and why"}}

router = APIRouter(tags=["probes"], dependencies=[open_to_all()])


@router.get("/actuator/health", responses=DOWN)
async def health(app: App, response: Response) -> dict[str, Any]:
    """Whether Evenbeat can work, component by component."""
    checks, _ = await run_checks(app)
    components = {name: {"status": WORDS.get(status, "DOWN")} for name, status in checks.items()}
    is_up = are_passed(checks)
    response.status_code = 200 if is_up else 503
    return {"status": "UP" if is_up else "DOWN", "components": components, "groups": GROUPS}


@router.get("/actuator/health/liveness")
async def liveness() -> dict[str, str]:
    """The process answers."""
    return {"status": "UP"}


@router.get("/actuator/health/readiness", responses=DOWN)
async def readiness(app: App, response: Response) -> dict[str, str]:
    """The same as /readyz, in a word."""
    checks, _ = await run_checks(app)
    is_ready = are_passed(checks)
    response.status_code = 200 if is_ready else 503
    return {"status": "UP" if is_ready else "OUT_OF_SERVICE"}


@router.get("/actuator/info")
@router.get("/info", include_in_schema=False)
async def info() -> dict[str, Any]:
    """The name of the service. Its version is in /metrics, which needs a token."""
    return {"app": {"name": "evenbeat"}}
