from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from evenbeat.core.runs.handler import RunContext
from evenbeat.core.runs.outcome import Outcome
from evenbeat.core.runs.registry import Registry
from evenbeat.engine.runs.active_run import run_handler
from evenbeat.engine.runs.handler_services import NodeServices
from evenbeat.handlers.http.addresses import Addresses
from evenbeat.handlers.http.handler import Http
from evenbeat.handlers.http.outbound import OutboundClient
from tests.core.given import claimed
from tests.support.web import Web, web_server

# The one address that the tests' server has; its neighbours stay closed.
HERE = Addresses.of_settings(["127.0.0.1"], allows_private=False)

Calls = Callable[..., Any]


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with web_server() as server:
        yield server


@pytest.fixture
def call() -> Calls:
    """Runs an http job with this payload as a node would, and gives the outcome."""

    async def call(outbound: OutboundClient | None = None, **payload: Any) -> Outcome:
        handler = Http(outbound or OutboundClient(HERE))
        handler.check(payload)
        job = claimed()
        job = replace(job, definition=replace(job.definition, kind="http", payload=payload))
        return await run_handler(job, RunContext(job, NodeServices(None, 10)), Registry([handler]))

    return call
