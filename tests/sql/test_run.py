"""SQL functions as jobs: what they do, what they say, and what becomes of their runs."""

from evenbeat.core.jobs.model import ErrorClass, RunState, State
from tests.sql.sql_schema import ONCE, SqlSchema
from tests.support.databases import Clock


async def test_what_a_function_does_and_returns_is_there_when_its_run_ends(
    sql_schema: SqlSchema,
) -> None:
    run = await sql_schema.outcome(
        """insert into shop.sale (note) values ('one');
        return '{"success": true, "message": "sold", "details": {"count": 1}}';"""
    )
    assert (run.state, run.error) == (RunState.COMPLETED, None)
    assert run.result == {"success": True, "message": "sold", "details": {"count": 1}}
    assert await sql_schema.notes() == ["one"]


async def test_each_beat_has_its_run(sql_schema: SqlSchema, clock: Clock) -> None:
    async with sql_schema.serving():
        job = await sql_schema.call(
            "insert into shop.sale (note) values ('a beat'); return null;", "every 1m"
        )
        for number in (1, 2, 3):
            await clock.advance(minutes=1)
            assert (await sql_schema.closed(job, number)).state is RunState.COMPLETED
    assert await sql_schema.notes() == ["a beat"] * 3
    assert (await sql_schema.find(job)).pulse.completed_count == 3


async def test_a_function_that_says_success_false_has_failed_and_its_effects_stay(
    sql_schema: SqlSchema,
) -> None:
    async with sql_schema.serving():
        job = await sql_schema.call(
            """insert into shop.sale (note) values ('half of it');
            return '{"success": false, "message": "the till is locked", "till": 4}';"""
        )
        run = await sql_schema.closed(job)
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.HANDLER_ERROR)
    assert run.error == "the till is locked"
    assert run.result == {"success": False, "message": "the till is locked", "till": 4}
    assert await sql_schema.notes() == ["half of it"]
    pulse = (await sql_schema.find(job)).pulse
    assert (pulse.state, pulse.retry_at) == (State.FAILED, None), "tried again it would be twice"


async def test_what_a_function_raises_undoes_it_and_is_kept_and_tried_again(
    sql_schema: SqlSchema, clock: Clock
) -> None:
    async with sql_schema.serving():
        job = await sql_schema.call(
            """insert into shop.sale (note) values ('never');
            raise exception 'no more %', 'paper'
                using errcode = 'SH001', detail = 'tray 2', hint = 'buy some';"""
        )
        for number, wait in ((1, 60), (2, 120)):
            await sql_schema.closed(job, number)
            await clock.advance(seconds=wait)
        run = await sql_schema.closed(job, 3)
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.HANDLER_ERROR)
    assert run.error == "no more paper"
    told = run.stack_trace or ""
    for each in ("SQLSTATE: SH001", "DETAIL: tray 2", "HINT: buy some"):
        assert each in told
    assert "PL/pgSQL function work() line" in told
    assert await sql_schema.notes() == []
    assert (await sql_schema.find(job)).pulse.state is State.FAILED
    assert len(await sql_schema.runs(job)) == 3, "three attempts, unless the job says otherwise"


async def test_nothing_or_anything_but_an_object_is_a_good_end(sql_schema: SqlSchema) -> None:
    assert (await sql_schema.outcome("return null;")).state is RunState.COMPLETED
    run = await sql_schema.outcome("return '[false]';")
    assert (run.state, run.result) == (RunState.COMPLETED, [False])


async def test_a_function_is_given_the_arguments_of_its_job(sql_schema: SqlSchema) -> None:
    await sql_schema.function("return given || '{\"seen\": true}';", name="work(given jsonb)")
    async with sql_schema.serving():
        for arguments, result in (
            ({"arguments": {"a": [1]}}, {"a": [1], "seen": True}),
            ({}, {"seen": True}),
        ):
            job = await sql_schema.add(
                kind="sql_function", payload={"function": "shop.work"} | arguments, policy=ONCE
            )
            assert (await sql_schema.closed(job)).result == result


async def test_what_a_function_says_becomes_log_lines_of_its_run(sql_schema: SqlSchema) -> None:
    body = """
        raise notice 'first'; raise warning 'second'; raise info 'third'; raise debug 'unheard';
        if note then raise exception 'enough'; end if; return null;
    """
    for ends_badly in ("true", "false"):
        run = await sql_schema.outcome(body.replace("if note", f"if {ends_badly}"))
        lines = await sql_schema.fetch(
            "select level, message from evenbeat.run_log where run_id = $1 order by id", run.id
        )
        assert [tuple(line) for line in lines] == [
            ("info", "first"),
            ("warning", "second"),
            ("info", "third"),
        ]
