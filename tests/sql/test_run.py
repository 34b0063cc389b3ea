"""SQL functions as jobs: what they do, what they say, and what becomes of their runs."""

from evenbeat.core.jobs.model import ErrorClass, RunState, State
from tests.sql.sql_schema import ONCE, Shop
from tests.support.databases import Clock


async def test_what_a_function_does_and_returns_is_there_when_its_run_ends(shop: Shop) -> None:
    run = await shop.outcome(
        """insert into shop.sale (note) values ('one');
        return '{"success": true, "message": "sold", "details": {"count": 1}}';"""
    )
    assert (run.state, run.error) == (RunState.COMPLETED, None)
    assert run.result == {"success": True, "message": "sold", "details": {"count": 1}}
    assert await shop.notes() == ["one"]


async def test_each_beat_has_its_run(shop: Shop, clock: Clock) -> None:
    async with shop.serving():
        job = await shop.call(
            "insert into shop.sale (note) values ('a beat'); return null;", "every 1m"
        )
        for number in (1, 2, 3):
            await clock.advance(minutes=1)
            assert (await shop.closed(job, number)).state is RunState.COMPLETED
    assert await shop.notes() == ["a beat"] * 3
    assert (await shop.look(job)).pulse.completed_count == 3


async def test_a_function_that_says_success_false_has_failed_and_its_effects_stay(
    shop: Shop,
) -> None:
    async with shop.serving():
        job = await shop.call(
            """insert into shop.sale (note) values ('half of it');
            return '{"success": false, "message": "the till is locked", "till": 4}';"""
        )
        run = await shop.closed(job)
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.HANDLER_ERROR)
    assert run.error == "the till is locked"
    assert run.result == {"success": False, "message": "the till is locked", "till": 4}
    assert await shop.notes() == ["half of it"]
    pulse = (await shop.look(job)).pulse
    assert (pulse.state, pulse.retry_at) == (State.FAILED, None), "tried again it would be twice"


async def test_what_a_function_raises_undoes_it_and_is_kept_and_tried_again(
    shop: Shop, clock: Clock
) -> None:
    async with shop.serving():
        job = await shop.call(
            """insert into shop.sale (note) values ('never');
            raise exception 'no more %', 'paper'
                using errcode = 'SH001', detail = 'tray 2', hint = 'buy some';"""
        )
        for number, wait in ((1, 60), (2, 120)):
            await shop.closed(job, number)
            await clock.advance(seconds=wait)
        run = await shop.closed(job, 3)
    assert (run.state, run.error_class) == (RunState.FAILED, ErrorClass.HANDLER_ERROR)
    assert run.error == "no more paper"
    told = run.stack_trace or ""
    for each in ("SQLSTATE: SH001", "DETAIL: tray 2", "HINT: buy some"):
        assert each in told
    assert "PL/pgSQL function work() line" in told
    assert await shop.notes() == []
    assert (await shop.look(job)).pulse.state is State.FAILED
    assert len(await shop.runs(job)) == 3, "three attempts, unless the job says otherwise"


async def test_nothing_or_anything_but_an_object_is_a_good_end(shop: Shop) -> None:
    assert (await shop.outcome("return null;")).state is RunState.COMPLETED
    run = await shop.outcome("return '[false]';")
    assert (run.state, run.result) == (RunState.COMPLETED, [False])


async def test_a_function_is_given_the_arguments_of_its_job(shop: Shop) -> None:
    await shop.function("return given || '{\"seen\": true}';", name="work(given jsonb)")
    async with shop.serving():
        for arguments, result in (
            ({"arguments": {"a": [1]}}, {"a": [1], "seen": True}),
            ({}, {"seen": True}),
        ):
            job = await shop.add(
                kind="sql_function", payload={"function": "shop.work"} | arguments, policy=ONCE
            )
            assert (await shop.closed(job)).result == result


async def test_what_a_function_says_becomes_log_lines_of_its_run(shop: Shop) -> None:
    body = """
        raise notice 'first'; raise warning 'second'; raise info 'third'; raise debug 'unheard';
        if note then raise exception 'enough'; end if; return null;
    """
    for ends_badly in ("true", "false"):
        run = await shop.outcome(body.replace("if note", f"if {ends_badly}"))
        lines = await shop.fetch(
            "select level, message from evenbeat.run_log where run_id = $1 order by id", run.id
        )
        assert [tuple(line) for line in lines] == [
            ("info", "first"),
            ("warning", "second"),
            ("info", "third"),
        ]
