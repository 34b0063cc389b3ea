from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from evenbeat.core.handler import RunContext
from evenbeat.core.outcome import Outcome
from evenbeat.core.registry import Registry
from evenbeat.engine.runner import run
from evenbeat.engine.toolbox import NodeToolbox
from evenbeat.handlers.addresses import Addresses
from evenbeat.handlers.http import Http
from evenbeat.handlers.outbound import Outbound
from tests.support.web import Web, web_server
from tests.unit.lifecycle.given import claimed

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

    async def call(outbound: Outbound | None = None, **payload: Any) -> Outcome:
        handler = Http(outbound or Outbound(HERE))
        handler.check(payload)
        job = claimed()
        job = replace(job, definition=replace(job.definition, kind="http", payload=payload))
        return await run(job, RunContext(job, NodeToolbox(None, 10)), Registry([handler]))

    return call
