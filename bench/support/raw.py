"""The bare statements: the engine's claim and completion in a loop, with nothing around them.

python raw.py URL BATCH [once]
"""

import asyncio
import secrets
import sys
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop

from evenbeat.store.database.pool import order_values
from evenbeat.store.database.route import set_json_codecs
from evenbeat.store.database.statements import load_statements

LEASES, NODES = load_statements("runs/leases"), load_statements("ops/nodes")
COMPLETIONS = load_statements("runs/completions")
DAY = timedelta(days=1)
PLAN = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}


async def main() -> None:
    url, batch = sys.argv[1], int(sys.argv[2])
    is_once = sys.argv[3:] == ["once"]
    connection: Any = await asyncpg.connect(url, server_settings=PLAN)
    await set_json_codecs(connection)
    node_id = await connection.fetchval(
        NODES["join"].text("database"),
        *order_values(
            NODES["join"], {"name": "raw", "kinds": ["noop"], "labels": [], "lease_seconds": 3600.0}
        ),
    )
    lanes = [row["id"] for row in await connection.fetch(NODES["lanes"].text("database"))]
    claim, complete = LEASES["claim_due"], COMPLETIONS["complete"]
    claiming = await connection.prepare(claim.text("database"))
    completing = await connection.prepare(complete.text("database"))
    while True:
        token = secrets.randbits(62)
        wanted = {"node_id": node_id, "token": token, "lane_ids": lanes, "since": []}
        rows = await claiming.fetch(*order_values(claim, wanted | {"places": [batch] * len(lanes)}))
        if not rows:
            await asyncio.sleep(0.01)
            continue
        arrays = settled(rows, token, complete.parameters, is_once=is_once)
        await completing.fetch(*order_values(complete, arrays))


def settled(
    rows: list[Any], token: int, parameters: tuple[str, ...], *, is_once: bool
) -> dict[str, list[Any]]:
    """Every run done, every next beat a day later or none: the least that a completion can say."""
    rows.sort(key=lambda row: row["id"])
    arrays: dict[str, list[Any]] = {name: [] for name in parameters}
    return arrays | {
        "job_ids": [row["id"] for row in rows],
        "tokens": [token] * len(rows),
        "duration_ms": [0] * len(rows),
        "plan_versions": [row["plan_version"] for row in rows],
        "next_beats": [] if is_once else [row["next_beat_at"] + DAY for row in rows],
        "job_states": [b"c"] * len(rows) if is_once else [],
    }


if __name__ == "__main__":
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(main())
