"""The engine's statements keep to their indexes, with a million jobs and statistics that lie."""

import asyncio

import asyncpg
import pytest

from evenbeat.postgres import EmbeddedServer
from evenbeat.store.database import migrations
from evenbeat.store.database.pool import ENGINE_SETTINGS
from evenbeat.store.database.statements import Statement, load_statements
from tests.support import databases

MILLION = 1_000_000
# Half of them parked behind a full group, one in ten in a group with room, the rest in none.
FILL = f"""
    insert into evenbeat.lane (kind) values ('echo'), ('crawl');
    insert into evenbeat.job_group (key, max_running, created_at, limits_at)
    select 'group ' || n, 1, now(), now() from generate_series(1, 1000) as n;
    insert into evenbeat.job (uid, kind, payload, timetable, policy, labels, created_at, updated_at)
    select gen_random_uuid(), 'echo', '{{}}', '{{}}', '{{}}', '{{}}', now(), now()
    from generate_series(1, {MILLION});
    insert into evenbeat.pulse (
        id, lane_id, state, state_at, next_beat_at, group_id, is_parked
    )
    select id, 1 + id % 2, 's', now(), now() + id * interval '1 second',
        case when id % 10 > 3 then 1 + id % 1000 end, id % 10 > 4
    from evenbeat.job;
"""
# What statistics say that were taken when there was nothing yet.
STATISTICS = {
    "taken on empty tables": (),
    "taken at rest": (
        "analyze evenbeat.pulse",
        "analyze evenbeat.job",
        "analyze evenbeat.job_group",
    ),
}
HOT = (
    *(("runs/leases", name) for name in ("claim_due", "lock_groups", "claim_grouped", "next_due")),
    *(("runs/leases", name) for name in ("tuck", "unwanted", "leased", "lost_leases")),
    ("runs/completions", "complete"),
    *(("jobs/groups", name) for name in ("lock", "unpark", "with_room")),
    ("jobs/job_inserts", "insert"),
    *(("jobs/jobs", name) for name in ("definitions", "id_of")),
    ("jobs/listing", "by_uids"),
    *(("jobs/actions", name) for name in ("lock", "write_changes", "delete", "edit", "versions")),
    ("ops/nodes", "renew"),
    *(
        ("ops/retention", name)
        for name in ("closed_ids", "next_closed_id", "closed_late", "count_runs")
    ),
    *(("ops/retention", name) for name in ("old_runs", "remove_lines", "remove_runs", "old_jobs")),
    *(("ops/retention", name) for name in ("fold_days", "remove_jobs", "remove_days")),
    ("ops/retention", "remove_letters"),
    *(("ops/figures", name) for name in ("lag", "lanes", "dead_letters")),
)
BY_INDEX = {
    "runs/leases.claim_due": "pulse_due",
    "runs/leases.claim_grouped": "pulse_due_grouped",
    "runs/leases.lock_groups": "pulse_due_grouped",
    "runs/leases.next_due": "pulse_due",
    "runs/completions.complete": "pulse_pkey",
    "runs/leases.unwanted": "pulse_wanted",
    "jobs/groups.unpark": "pulse_parked",
    "jobs/groups.with_room": "pulse_parked",
    "ops/retention.old_runs": "run_pkey",
    "ops/retention.old_jobs": "pulse_pkey",
    "ops/retention.fold_days": "run_day_job",
    "ops/retention.remove_letters": "dead_letter_seen",
    "ops/figures.lag": "pulse_due",
    "ops/figures.lanes": "pulse_due",
    "jobs/listing.by_uids": "job_uid_key",
    "jobs/actions.lock": "job_uid_key",
    "jobs/actions.write_changes": "pulse_pkey",
}
LARGE = ("pulse", "job", "run", "permit", "dead_letter", "run_day", "run_log", "late_run")


@pytest.fixture(scope="module")
def crowded(postgres: EmbeddedServer) -> str:
    """A database with a million jobs that nobody has analyzed since it was empty."""

    async def make() -> None:
        await databases.create(postgres.url("postgres"), "evenbeat_crowded")
        await migrations.migrate(postgres.url("evenbeat_crowded"))
        connection = await asyncpg.connect(postgres.url("evenbeat_crowded"), command_timeout=None)
        for table in LARGE:
            await connection.execute(f"analyze evenbeat.{table}")
        await connection.execute(FILL)
        await connection.close()

    asyncio.run(make())
    return postgres.url("evenbeat_crowded")


@pytest.mark.proof
@pytest.mark.parametrize("statistics", STATISTICS)
def test_hot_statements_never_read_a_large_table_from_end_to_end(
    crowded: str, statistics: str
) -> None:
    async def look() -> dict[str, str]:
        connection = await asyncpg.connect(
            crowded, server_settings=ENGINE_SETTINGS, command_timeout=None
        )
        for statement in STATISTICS[statistics]:
            await connection.execute(statement)
        plans = {
            f"{file}.{name}": await plan_of(connection, load_statements(file)[name])
            for file, name in HOT
        }
        await connection.close()
        return plans

    for name, plan in asyncio.run(look()).items():
        for table in LARGE:
            assert f"Seq Scan on {table}" not in plan, f"{name}:\n{plan}"
        assert BY_INDEX.get(name, "") in plan, f"{name}:\n{plan}"


async def plan_of(connection: asyncpg.Connection, statement: Statement) -> str:
    """The one plan that a node makes and keeps: ENGINE forces it whatever the values are."""
    await connection.execute(f"prepare hot as {statement.text('database')}")
    values = ", ".join(["null"] * len(statement.parameters))
    rows = await connection.fetch(
        f"explain execute hot ({values})" if values else "explain execute hot"
    )
    await connection.execute("deallocate hot")
    return "\n".join(row[0] for row in rows)
