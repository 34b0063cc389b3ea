"""Every example of the document runs as it stands there."""

from tests.contracts.s3.integrator import CLEANUP, REGISTER, Integrator

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


async def test_every_cron_of_the_reference_is_taken(me: Integrator) -> None:
    for place, line in enumerate(
        ["0 8 * * *", "*/15 * * * *", "0 0 * * 0", "0 9 1 * *", "0 8 * * 1-5"]
    ):
        await me.register(line, name=f"job {place}")
    assert await me.sql.fetchval("select count(*) from metadata.scheduled_jobs") == 5
