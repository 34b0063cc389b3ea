"""Probes: is the process alive, is it ready for requests. Open to everyone."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from evenbeat.app import Evenbeat
from evenbeat.core.errors import StoreUnavailable
from evenbeat.web.auth import open_to_all

router = APIRouter(tags=["probes"], dependencies=[open_to_all()])


def the_app(request: Request) -> Evenbeat:
    return request.app.state.evenbeat


App = Annotated[Evenbeat, Depends(the_app)]


@router.get("/livez")
async def livez() -> dict[str, str]:
    """The process answers."""
    return {"status": "alive"}


@router.get("/readyz", responses={503: {"description": "not ready, and why"}})
async def readyz(app: App, response: Response) -> dict[str, Any]:
    """The database answers and has the schema this version needs."""
    checks = await run_checks(app)
    is_ready = all(check == "ok" for check in checks.values())
    response.status_code = 200 if is_ready else 503
    return {"status": "ready" if is_ready else "not ready", "checks": checks}


async def run_checks(app: Evenbeat) -> dict[str, str]:
    try:
        schema = await app.schema_status()
    except StoreUnavailable as error:
        return {"database": str(error), "schema": "unknown"}
    return {
        "database": "ok",
        "schema": "ok" if schema.is_current else "not migrated: run `evenbeat db migrate`",
    }
