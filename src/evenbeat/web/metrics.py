"""`/metrics`: what this process counted, and what the database says of all of them."""

import asyncio

from fastapi import APIRouter, Request, Response
from prometheus_client.metrics_core import Metric

from evenbeat.app import Evenbeat
from evenbeat.core.errors import StoreUnavailable
from evenbeat.observe import gauges
from evenbeat.web.auth import needs
from evenbeat.web.probes import App
from evenbeat.web.token_checks import Role

# Prometheus gives up after ten seconds, and then it has not even what this process counted.
PATIENCE = 2.0

router = APIRouter(tags=["probes"])


@router.get("/metrics", dependencies=[needs(Role.VIEWER)], response_class=Response)
async def metrics(app: App, request: Request) -> Response:
    """Metrics as Prometheus reads them, or as OpenMetrics where that is asked for."""
    found, accept = await read_database_gauges(app), request.headers.get("accept", "")
    # A hundred kinds take a tenth of a second, and nodes in this process must not wait for it.
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
