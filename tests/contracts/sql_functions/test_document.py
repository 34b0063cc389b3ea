"""Every example of the document runs as it stands there."""

import itertools
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from tests.contracts.sql_functions.client import CLEANUP, REGISTER, Integrator
from tests.engine.node_runner import Does, Gate
from tests.support.databases import Clock

TEMPLATE = """
    CREATE OR REPLACE FUNCTION my_scheduled_job()
    RETURNS JSONB
    LANGUAGE plpgsql
    SECURITY DEFINER
    SET search_path = metadata, public
    AS $$
    BEGIN
        -- Do work...
        RETURN jsonb_build_object(
            'success', true,
            'message', 'Processed 5 records',
            'details', jsonb_build_object('count', 5)  -- optional
        );
    EXCEPTION WHEN OTHERS THEN
        RETURN jsonb_build_object(
            'success', false,
            'message', SQLERRM
        );
    END;
    $$;
"""
OVERVIEW = """
    SELECT name, enabled, last_run_at, last_run_success, total_runs, success_rate_percent
    FROM scheduled_job_status;
"""
HISTORY = """
    SELECT started_at, completed_at, success, message, triggered_by
    FROM metadata.scheduled_job_runs
    WHERE job_id = 1
    ORDER BY started_at DESC
    LIMIT 10;
"""
QUEUE = """
    SELECT id, kind, args, state, attempt, created_at
    FROM metadata.river_job
    WHERE kind = 'scheduled_job_execute'
    ORDER BY created_at DESC;
"""
ANALYSIS = """
    SELECT
        sj.name,
        COUNT(*) as total_runs,
        AVG(duration_ms) as avg_duration_ms,
        MAX(duration_ms) as max_duration_ms,
        SUM(CASE WHEN success THEN 1 ELSE 0 END)::float / COUNT(*) * 100 as success_rate
    FROM metadata.scheduled_job_runs r
    JOIN metadata.scheduled_jobs sj ON r.job_id = sj.id
    WHERE r.started_at > NOW() - INTERVAL '7 days'
    GROUP BY sj.name;
"""
IDEMPOTENT = """
    INSERT INTO processed_items (item_id, processed_at)
    SELECT id, NOW() FROM items WHERE status = 'pending'
    ON CONFLICT (item_id) DO NOTHING;
    UPDATE items SET status = 'processing'
    WHERE id IN (
        SELECT id FROM items WHERE status = 'pending'
        FOR UPDATE SKIP LOCKED
        LIMIT 100
    );
"""


async def test_from_the_function_to_its_history(me: Integrator) -> None:
    await me.sql.execute(CLEANUP)
    await me.sql.execute(REGISTER)
    await me.sql.execute("insert into some_temp_table values (now() - interval '31 days'), (now())")
    answer = await me.sql.fetchval("SELECT trigger_scheduled_job('daily_cleanup');")
    assert (answer["success"], answer["job_name"]) == (True, "daily_cleanup")
    assert answer["result"]["details"] == {"deleted_count": 1}
    [status] = await me.sql.fetch(OVERVIEW)
    assert status["last_run_at"] is not None
    assert dict(status) | {"last_run_at": None} == {
        "name": "daily_cleanup",
        "enabled": True,
        "last_run_at": None,
        "last_run_success": True,
        "total_runs": 1,
        "success_rate_percent": 100,
    }
    job_id = await me.sql.fetchval("select id from metadata.scheduled_jobs")
    [run] = await me.sql.fetch(HISTORY.replace("= 1", f"= {job_id}"))
    assert (run["success"], run["triggered_by"]) == (True, "manual")
    assert run["message"] == "Deleted 1 old records"
    assert [row["name"] for row in await me.sql.fetch(ANALYSIS)] == ["daily_cleanup"]
    [queued] = await me.sql.fetch(QUEUE)
    assert (queued["id"], queued["state"]) == (answer["run_id"], "completed")


async def test_the_template_of_a_function(me: Integrator) -> None:
    await me.sql.execute(TEMPLATE)
    await me.register(function_name="my_scheduled_job")
    assert (await me.trigger())["result"]["message"] == "Processed 5 records"


async def test_the_advice_on_doing_things_once(me: Integrator) -> None:
    await me.sql.execute("insert into items values (1, 'pending'), (2, 'done')")
    await me.function(f"{IDEMPOTENT} return null;", more="security definer")
    await me.register(name="twice")
    await me.function(f"{IDEMPOTENT} return null;", more="security definer")
    await me.trigger("twice")
    await me.trigger("twice")
    assert await me.sql.fetchval("select count(*) from processed_items") == 1
    assert await me.sql.fetchval("select status from items where id = 1") == "processing"


# The reference of cron, and what comes first after noon of a Tuesday, the first of January.
REFERENCE = {
    "0 8 * * *": datetime(2030, 1, 2, 8, tzinfo=UTC),
    "*/15 * * * *": datetime(2030, 1, 1, 12, 15, tzinfo=UTC),
    "0 0 * * 0": datetime(2030, 1, 6, tzinfo=UTC),
    "0 9 1 * *": datetime(2030, 2, 1, 9, tzinfo=UTC),
    "0 8 * * 1-5": datetime(2030, 1, 2, 8, tzinfo=UTC),
}


async def test_every_cron_of_the_reference_means_what_is_said_of_it(me: Integrator) -> None:
    for line in REFERENCE:
        await me.register(line, name=line)
    await me.plan()
    assert {line: (await me.pulse(line))["next_beat_at"] for line in REFERENCE} == REFERENCE


# From one beat to the next around the changes of the clocks: zone, schedule, beats.
NEW_YORK, BERLIN = "America/New_York", "Europe/Berlin"
CHANGES = [
    # Half past two does not come: right after the gap instead, and the next day as ever.
    (NEW_YORK, "30 2 * * *", ["03-09T07:30", "03-10T07:00", "03-11T06:30"]),
    (BERLIN, "30 2 * * *", ["03-30T01:30", "03-31T01:00", "04-01T00:30"]),
    # It comes twice: the first time counts.
    (NEW_YORK, "30 1 * * *", ["11-02T05:30", "11-03T05:30", "11-04T06:30"]),
    (BERLIN, "30 2 * * *", ["10-26T00:30", "10-27T00:30", "10-28T01:30"]),
]


async def test_a_zone_has_its_summer_time(me: Integrator, clock: Clock) -> None:
    for place, (zone, line, beats) in enumerate(CHANGES):
        at = [datetime.fromisoformat(f"2030-{beat}Z") for beat in beats]
        for now, following in itertools.pairwise(at):
            await clock.set_to(now)
            name = f"{place} from {now}"
            await me.register(line, name=name, timezone=zone)
            await me.plan()
            assert (await me.pulse(name))["next_beat_at"] == following, name


STATUS = """
    select total_runs, successful_runs, failed_runs, success_rate_percent, last_run_success
    from scheduled_job_status
"""


async def test_the_status_counts_all_runs_and_those_that_are_under_way_too(
    me: Integrator,
) -> None:
    await me.register("* * * * *")
    assert tuple(await me.sql.fetchrow(STATUS)) == (0, 0, 0, None, None)
    await me.trigger()
    await me.trigger()
    await me.function("raise exception 'no';")
    await me.trigger()
    assert tuple(await me.sql.fetchrow(STATUS)) == (3, 2, 1, Decimal("66.7"), False)
    gate = Gate()
    async with me.node(Does(gate, kind="sql_function")):
        await me.planned()
        await me.clock_on(minutes=1)
        await gate.reached.wait()
        assert tuple(await me.sql.fetchrow(STATUS)) == (4, 2, 1, Decimal("50.0"), None)
        gate.open.set()
        await me.at_rest()


async def test_what_a_function_may_tell_of_its_own_errors(me: Integrator) -> None:
    """As the page has it: there is no pg_exception_context() in PostgreSQL."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "schedule-sql-functions.md").read_text()
    [careful] = re.findall(r"```\n(create function public\.careful.*?)```", page, re.DOTALL)
    await me.sql.execute(careful)
    await me.register(function_name="careful")
    result = (await me.trigger())["result"]
    assert (result["success"], result["message"]) == (False, "division by zero")
    assert result["details"]["sqlstate"] == "22012"
    assert "PL/pgSQL function careful() line" in result["details"]["context"]
