"""The HTTP interface of a worker: probes and metrics, and no API."""

from fastapi import FastAPI

from evenbeat.app import Evenbeat
from evenbeat.web import metrics, probes, problems
from evenbeat.web.auth import Authenticator
from evenbeat.web.request_metrics import RequestMetrics


def build_worker_site(app: Evenbeat) -> FastAPI:
    site = FastAPI(title="Evenbeat", openapi_url=None, redirect_slashes=False)
    site.state.evenbeat = app
    site.state.authenticator = Authenticator(app)
    problems.install(site)
    site.add_middleware(RequestMetrics, metrics=app.metrics)
    site.include_router(probes.router)
    site.include_router(metrics.router)
    return site
