"""`-o json` prints what the REST API answers: one shape for programs, wherever they ask."""

from collections.abc import AsyncIterator

import httpx2 as httpx
import pytest

from evenbeat import server
from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.core.jobs.templates import Template
from evenbeat.core.ops.access import LIFETIME, Role
from tests.cli.conftest import Call
from tests.control.controlled_jobs import ControlledJobs

ASKED = {
    "jobs list --sort name --limit 2": "jobs?sort_by=name&sort_order=asc&limit=2",
    "jobs show bad": "jobs/{bad}",
    "explain bad": "jobs/{bad}/explain",
    "runs show {letter}": "executions/{letter}",
    "dlq list --job bad --state open": "dead-letters?job_name=bad&state=open",
    "dlq list --job {bad} --limit 1": "dead-letters?job_id={bad}&limit=1",
    "dlq list --group site --owned-by ops": "dead-letters?group=site&owner=ops",
    "dlq groups --kind echo": "dead-letters/groups?kind=echo",
    "dlq show {letter}": "dead-letters/{letter}",
    "groups list --search it --offset 1": "groups?search=it&offset=1",
    "groups show site --limit 7": "groups/site?limit=7",
    "stats --kind echo": "stats?kind=echo",
    "stats --job bad": "jobs/{bad}/stats",
    "stats --days 2 --group site": "stats/trend?days=2&group=site",
    "stats --job bad --days 2": "jobs/{bad}/stats/trend?days=2",
    "templates list": "templates",
    "nodes list": "nodes",
    "audit list --limit 1": "audit?limit=1",
    "tokens list": "tokens",
    "balance show": "scheduler/distribution",
    "balance forecast": "scheduler/forecast",
}

# What only the command knows.
KNOWN_HERE = {"jobs show bad": ("explanation",), "explain bad": ("id", "state")}


@pytest.fixture
async def eb(controlled: ControlledJobs, environ: dict[str, str]) -> AsyncIterator[Evenbeat]:
    async with Evenbeat(load(environ=environ | {"EVENBEAT_AUTH": "off"})) as app:
        yield app


async def test_what_a_program_reads_is_the_answer_of_the_api(
    eb: Evenbeat, letter: str, call: Call
) -> None:
    await eb.templates.put(Template("hello", {"kind": "echo"}))
    await eb.tokens.issue(name="ann", role=Role.VIEWER, lifetime=LIFETIME.longest, issued_by="x")
    await call("groups", "set", "sites")
    known = {"bad": (await eb.jobs.find("bad")).uid, "letter": letter}
    transport = httpx.ASGITransport(app=server.build_site(eb))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
        for command, path in ASKED.items():
            said = (await call(*command.format(**known).split(), "-o", "json")).json
            answer = await api.get(f"/api/v1/{path.format(**known)}")
            assert answer.status_code == 200, (path, answer.text)
            known_here = {name: said[name] for name in KNOWN_HERE.get(command, ())}
            assert said == answer.json() | known_here, command
