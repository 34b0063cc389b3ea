"""The API with 100,000 jobs behind it, beside plain FastAPI doing nothing in the same run.

Answers in a second over connections that stay open, and how long one takes on a connection alone:
that is the server's own time, and the way there and back. The client, the server and the database
share one machine: the ratios say more than the figures.
"""

import argparse
import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.support.api_asking import Speed, Target
from bench.support.jobs import fill
from bench.support.processes import program
from bench.support.rounds import say
from bench.support.server import fresh, server

from evenbeat.config import load
from evenbeat.control.ops.token_signing import make_token
from evenbeat.core.ops.access import Role
from evenbeat.observe import log
from evenbeat.postgres import EmbeddedServer

SECRET = "a secret that only this benchmark knows, long enough"
JOBS = "/api/v1/jobs"
JOB = {"kind": "echo", "payload": {"hello": "world"}, "schedule": "every 1d"}
BATCH = 1000
DEEP = 90_000


async def requests_of(target: Target) -> dict[str, bytes]:
    """What is asked, by its name in the report."""
    page = await target.ask("GET", f"{JOBS}?limit=50")
    first: dict[str, str] = page["jobs"][0]  # type: ignore[index]
    lists = {
        "list, newest first": f"{JOBS}?limit=50",
        "list, by cursor": f"{JOBS}?limit=50&cursor={page['next_cursor']}",
        "list, filtered by status and kind": f"{JOBS}?limit=50&status=scheduled&kind=noop",
        "list, by next run": f"{JOBS}?limit=50&sort_by=next_run_at&sort_order=asc",
        "list, searched": f"{JOBS}?limit=50&search=job777",
        f"list, from {DEEP:,} on": f"{JOBS}?limit=50&offset={DEEP}",
    }
    return {
        "create": target.request("POST", JOBS, JOB),
        "get": target.request("GET", f"{JOBS}/{first['id']}"),
        **{name: target.request("GET", path) for name, path in lists.items()},
        f"create {BATCH:,} at once": target.request(
            "POST", f"{JOBS}/batch", {"jobs": [JOB] * BATCH}
        ),
        "stats": target.request("GET", "/api/v1/stats"),
    }


async def both(target: Target, request: bytes, chosen: argparse.Namespace) -> tuple[Speed, Speed]:
    """With many connections, and with one."""
    return (
        await target.measure(request, connections=chosen.connections, seconds=chosen.seconds),
        await target.measure(request, connections=1, seconds=chosen.seconds),
    )


async def measure(running: EmbeddedServer, chosen: argparse.Namespace) -> dict[str, float]:
    url = await fresh(running, "api")
    say(f"adding {chosen.jobs:,} jobs …")
    await fill(url, chosen.jobs)
    settings = load(environ={}, cwd=Path("/"), jwt_secret=SECRET)
    token = make_token(settings, name="bench", role=Role.ADMIN, lifetime=timedelta(days=1))
    figures: dict[str, float] = {}
    async with program("api_plain.py") as [plain], program("api_server.py", url, SECRET) as [ours]:
        yardstick = Target(await plain.line())
        target = Target(await ours.line(), token)
        for verb, body in (("GET", None), ("POST", JOB)):
            speed, alone = await both(yardstick, yardstick.request(verb, "/", body), chosen)
            figures[f"plain FastAPI, {verb}: requests/s"] = speed.per_second
            figures[f"plain FastAPI, {verb}: ms alone"] = alone.median_ms
        for name, request in (await requests_of(target)).items():
            say(f"measuring: {name} …")
            verb = "POST" if name.startswith("create") else "GET"
            speed, alone = await both(target, request, chosen)
            figures[f"{name}: requests/s"] = speed.per_second
            figures[f"{name}: ms alone"] = alone.median_ms
            if speed.refused:
                figures[f"{name}: refused, the server being too busy"] = speed.refused
            if name.endswith("at once"):
                figures[f"{name}: jobs/s"] = speed.per_second * BATCH
            share = speed.per_second / figures[f"plain FastAPI, {verb}: requests/s"]
            figures[f"{name}: share of plain's requests/s"] = share
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each measure")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    chosen = parser.parse_args()
    log.configure(load(environ={}, log_level="error"))
    with server() as running:
        figures = asyncio.run(measure(running, chosen))
    for name, value in figures.items():
        print(f"{name:64} {value:12,.2f}")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
