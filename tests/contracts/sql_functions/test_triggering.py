"""trigger_scheduled_job(name): at once, in the caller's transaction, with few rights."""

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.runs.registry import Registry
from evenbeat.store.database import clock as clocks
from tests.contracts.sql_functions.client import Integrator
from tests.engine.node_runner import Does, Gate
from tests.support.waiting import eventually

RUN = "select * from metadata.scheduled_job_runs"


async def run_of(me: Integrator, answer: dict[str, Any]) -> dict[str, Any]:
    return dict(await me.sql.fetchrow(f"{RUN} where id = $1", answer["run_id"]))


async def test_the_answer_of_a_function_that_did_it(me: Integrator) -> None:
    job_id = await me.register()
    answer = await me.trigger()
    run = await run_of(me, answer)
    assert answer == {
        "success": True,
        "run_id": run["id"],
        "job_name": "job",
        "result": {"success": True, "message": "done"},
        "job_success": True,
        "duration_ms": run["duration_ms"],
    }
    assert (run["job_id"], run["success"], run["message"]) == (job_id, True, "done")
    assert run["details"] == {"success": True, "message": "done"}, "all of it, not its details"
    assert (run["scheduled_for"], run["triggered_by"]) == (None, "manual")
    assert (await me.row() or {})["last_run_at"] == run["started_at"]


async def test_a_function_that_reports_a_failure_was_triggered_all_the_same(me: Integrator) -> None:
    await me.register()
    await me.function("""return '{"success": false, "message": "till locked"}';""")
    answer = await me.trigger()
    assert (answer["success"], answer["job_success"]) == (True, False)
    run = await run_of(me, answer)
    assert (run["success"], run["message"]) == (False, "till locked")


async def test_what_a_function_raises_is_the_answer_and_undoes_what_it_did(me: Integrator) -> None:
    await me.register()
    await me.function("insert into ledger (note) values ('half'); raise exception 'no more';")
    answer = await me.trigger()
    run = await run_of(me, answer)
    assert answer == {
        "success": False,
        "run_id": run["id"],
        "job_name": "job",
        "error": "no more",
        "job_success": False,
        "duration_ms": run["duration_ms"],
    }
    assert (run["success"], run["message"]) == (False, "no more")
    assert await me.sql.fetchval("select count(*) from ledger") == 0


@pytest.mark.parametrize("result", ["null", "'[1]'::jsonb", "'5'::jsonb", "'{}'::jsonb"])
async def test_a_function_that_says_nothing_of_success_has_succeeded(
    me: Integrator, result: str
) -> None:
    await me.register()
    await me.function(f"return {result};")
    run = await run_of(me, await me.trigger())
    assert (run["success"], run["message"]) == (True, None)


# The same as on schedule; nothing else could be read back.
UNFIT = {
    "to_jsonb(repeat('x', 1000000))": "has more than 1000000 bytes",
    "(repeat('[', 65) || repeat(']', 65))::jsonb": "is nested deeper than 64 levels",
    "jsonb_build_array(1, -1e400::numeric)": "must have finite numbers",
}


async def test_a_result_that_could_not_be_kept_is_an_error_and_undoes_it(
    me: Integrator,
) -> None:
    await me.register()
    for result, told in UNFIT.items():
        await me.function(f"insert into ledger (note) values ('never'); return {result};")
        assert told in (await me.trigger())["error"]
    await me.function("raise exception '%', repeat('x', 100000);")
    assert (await me.trigger())["error"] == "x" * 10_000
    await me.function("return (repeat('[', 64) || repeat(']', 64))::jsonb;")
    assert (await me.trigger())["success"]
    assert await me.sql.fetchval("select count(*) from ledger") == 0


async def test_a_text_is_no_failure_by_hand_or_on_schedule(me: Integrator) -> None:
    await me.register()
    await me.function("""return '{"success": "false"}';""")
    assert (await me.trigger())["job_success"] is True


async def test_an_assertion_that_fails_is_the_function_s_error_too(me: Integrator) -> None:
    await me.register()
    await me.function("assert false, 'not so'; return null;")
    answer = await me.trigger()
    assert (answer["success"], answer["error"]) == (False, "not so")


async def test_a_function_waits_for_locks_as_long_as_on_schedule(me: Integrator) -> None:
    await me.register()
    await me.function("return to_jsonb(current_setting('lock_timeout'));")
    assert (await me.trigger())["result"] == "30s"


async def test_the_session_s_own_timeout_ends_it_and_leaves_no_trace(me: Integrator) -> None:
    await me.register()
    await me.function("perform pg_sleep(600); return null;")
    await me.sql.execute("set statement_timeout = '200ms'")
    with pytest.raises(asyncpg.QueryCanceledError, match="statement timeout"):
        await me.trigger()
    assert await me.sql.fetchval(f"select count(*) from ({RUN}) as runs") == 0


async def test_a_job_that_works_again_has_failed_no_more(me: Integrator) -> None:
    await me.register()
    await me.plan()
    await me.fetch("update evenbeat.pulse set state = 'f', failure_streak = 3")
    await me.function("raise exception 'still not';")
    await me.trigger()
    failed = "select state::text, failure_streak from evenbeat.pulse"
    assert [tuple(row) for row in await me.fetch(failed)] == [("f", 3)]
    await me.function("return null;")
    await me.trigger()
    assert [tuple(row) for row in await me.fetch(failed)] == [("s", 0)]


async def test_secrets_are_filled_in_by_nodes_alone(me: Integrator) -> None:
    await me.register()
    await me.fetch(
        """update evenbeat.job set payload = payload || '{"arguments": {"a": {"secret": "x"}}}'"""
    )
    with pytest.raises(asyncpg.RaiseError, match="refer to secrets"):
        await me.trigger()


async def test_what_waits_is_for_the_beat_to_come(me: Integrator) -> None:
    await me.register("0 3 * * *")
    await me.plan()
    waiting = """
        select (args ->> 'scheduled_for')::timestamptz = scheduled_at
        from metadata.river_job where state = 'scheduled'
    """
    await me.fetch("update evenbeat.pulse set beat_at = next_beat_at - interval '1 day'")
    assert await me.sql.fetchval(waiting) is True


async def test_the_duration_is_that_of_the_function(me: Integrator) -> None:
    await me.register()
    await me.function("perform pg_sleep(0.12); return null;")
    answer = await me.trigger()
    assert 120 <= answer["duration_ms"] < 60_000
    assert (await run_of(me, answer))["duration_ms"] == answer["duration_ms"]


async def test_a_job_that_is_not_there(me: Integrator) -> None:
    with pytest.raises(asyncpg.RaiseError, match="Scheduled job not found: nobody") as caught:
        await me.trigger("nobody")
    assert caught.value.sqlstate == "P0001"


async def test_a_job_that_is_running_is_not_run_beside_itself(me: Integrator) -> None:
    await me.register("* * * * *")
    gate = Gate()
    async with me.node(Does(gate, kind="sql_function")):
        await me.planned()
        await me.clock_on(minutes=1)
        await gate.reached.wait()
        with pytest.raises(asyncpg.LockNotAvailableError, match="Scheduled job is running: job"):
            await me.trigger()
        gate.open.set()
        await me.at_rest()
    assert (await me.trigger())["success"]


async def test_a_job_that_somebody_else_triggers_is_running_too(me: Integrator) -> None:
    await me.register()
    async with me.session("integrator") as other, other.transaction():
        await other.fetchval("select trigger_scheduled_job('job')")
        with pytest.raises(asyncpg.LockNotAvailableError, match="is running"):
            await me.trigger()


async def waits_for_a_lock(me: Integrator) -> bool:
    return await me.sql.fetchval("select exists (select from pg_locks where not granted)")


async def trigger_behind_another(me: Integrator) -> dict[str, Any] | None:
    """Trigger while somebody holds the row, who lets go of it half a minute later by the clock.

    None where the machine had no second for it: longer than that nobody waits for a row.
    """
    async with me.session() as other, me.session("integrator") as third:
        await other.execute("begin; select from evenbeat.pulse for update")
        calling = asyncio.ensure_future(third.fetchval("select trigger_scheduled_job('job')"))
        await eventually(lambda: waits_for_a_lock(me), "somebody who waits")
        await me.clock_on(seconds=30)
        await other.execute("commit")
        with contextlib.suppress(asyncpg.LockNotAvailableError):
            return await calling
    return None


async def test_a_run_by_hand_starts_when_the_one_before_it_has_ended(me: Integrator) -> None:
    await me.register()
    answer = await eventually(lambda: trigger_behind_another(me), "a run")
    run = await run_of(me, answer or {})
    now = await clocks.now(me.database)
    assert run["started_at"] == run["completed_at"] == now


async def test_a_disabled_job_runs_by_hand_and_stays_disabled(me: Integrator) -> None:
    await me.register(enabled=False)
    assert (await me.trigger())["success"]
    assert not (await me.row() or {})["enabled"]


async def test_it_is_part_of_the_callers_transaction(me: Integrator) -> None:
    await me.register()
    await me.function("insert into ledger (note) values ('sold'); return null;")
    transaction = me.sql.transaction()
    await transaction.start()
    await me.trigger()
    assert await me.sql.fetchval("select count(*) from ledger") == 1
    await transaction.rollback()
    assert await me.sql.fetchval("select count(*) from ledger") == 0
    assert await me.sql.fetchval(f"select count(*) from ({RUN}) as runs") == 0
    assert (await me.pulse())["run_number"] == 0


async def test_runs_by_hand_do_not_move_the_schedule(me: Integrator) -> None:
    await me.register()
    async with me.serving():
        before = await me.planned()
    await me.trigger()
    await me.trigger()
    after = await me.pulse()
    kept = ("next_beat_at", "due_at", "state", "plan_version", "attempt", "beat_at", "beat_count")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert after["run_number"] == 2


async def test_a_function_that_takes_arguments_gets_them(me: Integrator) -> None:
    await me.register()
    await me.sql.execute(
        "create function echo(given jsonb) returns jsonb language sql"
        " return jsonb_build_object('message', given)"
    )
    await me.sql.execute("update metadata.scheduled_jobs set function_name = 'echo'")
    assert (await me.trigger())["result"] == {"message": {}}
    jobs = Jobs(me.database, Registry())
    job = await jobs.get((await me.pulse())["uid"])
    payload = {"function": "public.echo", "arguments": {"days": 30}}
    await jobs.edit(job.uid, replace(job.definition, payload=payload))
    assert (await me.trigger())["result"] == {"message": {"days": 30}}


async def test_hands_and_engine_take_turns(me: Integrator) -> None:
    """Beats of the engine and calls by hand of many sessions: nothing overlaps, nothing is lost."""
    await me.register("* * * * * *")
    await me.function("insert into ledger (note) values ('x'); return null;")

    async def by_hand() -> None:
        done = 0
        async with me.session("integrator") as session:
            while done < 10:
                with contextlib.suppress(asyncpg.LockNotAvailableError):
                    await session.fetchval("select trigger_scheduled_job('job')")
                    done += 1

    async with me.serving():
        await me.planned()
        calling = [asyncio.ensure_future(by_hand()) for _ in range(3)]
        for _ in range(5):
            await me.clock_on(seconds=1)
            await me.at_rest()
        await asyncio.gather(*calling)
        await me.at_rest()
    counts = await me.sql.fetchrow(
        "select count(*) filter (where triggered_by = 'manual') as hands, count(*) as all"
        " from metadata.scheduled_job_runs"
    )
    assert counts["hands"] == 30
    assert await me.sql.fetchval("select count(*) from ledger") == counts["all"] >= 35
