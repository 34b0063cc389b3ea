"""`/metrics`: what this process counted, and what the database knows of the whole cluster."""

import asyncio

from fastapi import APIRouter, Request, Response
from prometheus_client.metrics_core import Metric

from evenbeat.app import Evenbeat
from evenbeat.core.errors import StoreUnavailable
from evenbeat.core.ops.access import Role
from evenbeat.observe import gauges
from evenbeat.web.auth import needs
from evenbeat.web.probes import App

# Prometheus gives up after ten seconds: a slow database must not cost us our own counts.
PATIENCE = 2.0

router = APIRouter(tags=["probes"])


@router.get("/metrics", dependencies=[needs(Role.VIEWER)], response_class=Response)
async def metrics(app: App, request: Request) -> Response:
    """Metrics as Prometheus reads them, or as OpenMetrics where that is asked for."""
    found, accept = await read_database_gauges(app), request.headers.get("accept", "")
    # Encoding a hundred kinds takes 0.1 s: in a thread, so that a node in this process goes on.
    text, content_type = await asyncio.to_thread(app.metrics.text, accept, found)
    return Response(text, headers={"content-type": content_type})


async def read_database_gauges(app: Evenbeat) -> list[Metric]:
    try:
        async with asyncio.timeout(PATIENCE):
            lag, figures = await app.lag(), await app.figures()
            balance = await app.balance.figures()
    except (StoreUnavailable, TimeoutError):
        return list(gauges.without_database())
    threshold = app.settings.score_threshold
    return [
        *gauges.gauges_of(lag, figures, app.metrics.kinds.label),
        *gauges.balance_gauges(balance, threshold),
    ]
