"""What is removed and what is kept: exactly the right rows, oldest first, and counted before."""

import random
from collections import Counter
from datetime import timedelta

import pytest

from evenbeat.config import Settings
from evenbeat.control.ops.verify import verify
from evenbeat.core.ops.housekeeping import Chore
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import retention
from evenbeat.store.ops.retention import RetentionLimits
from tests.conftest import START
from tests.support.run_histories import DAY, ONCE, Ran, RunHistory, count, janitor_of, tidy, work

KEEP = RetentionLimits(5, 30 * DAY, 7 * DAY, 400 * DAY, 30 * DAY)


@pytest.fixture
def run_history(database: Database) -> RunHistory:
    return RunHistory(database)


def story(chance: random.Random, job_id: int) -> list[Ran]:
    """Any number of runs over any stretch of the last hundred days."""
    number, newest = chance.randrange(30), chance.random() * 100
    ages = sorted((newest + chance.random() * 60 for _ in range(number)), reverse=True)
    return [
        Ran(job_id, place, START - age * DAY, chance.choice("ccccflxk"))
        for place, age in enumerate(ages, 1)
    ]


def is_kept(run: Ran, newest: int, *, keep: int, keep_for: timedelta) -> bool:
    """The rule in words of one line: young, or among the newest of its job."""
    ended_at = run.started_at + timedelta(seconds=1)
    return ended_at >= START - keep_for or run.number > newest - keep


@pytest.mark.parametrize("seed", range(8))
async def test_exactly_what_is_neither_young_nor_among_the_newest_goes(
    run_history: RunHistory, settings: Settings, seed: int
) -> None:
    chance = random.Random(seed)
    keep, keep_for = chance.choice([0, 1, 5, 100]), chance.choice([0, 10, 30, 90]) * DAY
    jobs = [await run_history.job(START - 200 * DAY) for _ in range(25)]
    stories = [story(chance, job_id) for job_id in jobs]
    await run_history.write(run for runs in stories for run in runs)
    janitor = janitor_of(run_history.database, settings, keep_runs=keep, keep_runs_for=keep_for)
    await tidy(janitor, run_history.database)
    expected = {
        (run.job_id, run.number)
        for runs in stories
        for run in runs
        if is_kept(run, len(runs), keep=keep, keep_for=keep_for)
    }
    assert await run_history.kept() == expected
    assert await verify(run_history.database) == []


async def test_runs_of_a_job_that_is_gone_go_by_their_age_alone(
    run_history: RunHistory, settings: Settings
) -> None:
    job = await run_history.job(START - 99 * DAY, schedule=ONCE, state="c")
    await run_history.write([Ran(job, 1, START - 40 * DAY), Ran(job, 2, START - 20 * DAY)])
    await tidy(janitor_of(run_history.database, settings), run_history.database)
    assert await run_history.fetch("select from evenbeat.job") == []
    assert await run_history.kept() == {(job, 2)}
    assert await verify(run_history.database) == []


async def test_the_settings_can_say_forever(run_history: RunHistory, settings: Settings) -> None:
    job = await run_history.job(START - 9999 * DAY)
    await run_history.write([Ran(job, 1, START - 9000 * DAY), Ran(job, 2, START - 8000 * DAY)])
    forever = Settings(keep_runs_for="forever").keep_runs_for  # type: ignore[arg-type]
    janitor = janitor_of(run_history.database, settings, keep_runs=0, keep_runs_for=forever)
    await tidy(janitor, run_history.database)
    assert await run_history.kept() == {(job, 1), (job, 2)}


async def test_nothing_is_removed_before_it_is_counted(run_history: RunHistory) -> None:
    job = await run_history.job(START - 99 * DAY)
    ids = await run_history.write(Ran(job, n, START - (90 - n) * DAY) for n in range(1, 11))
    for counted in (ids[job, 1] - 1, ids[job, 3]):
        await set_counted(run_history, counted)
        await remove(run_history)
        assert min(await run_history.kept()) == (job, 1 if counted < ids[job, 1] else 4)
    # A run that is late is not counted either, and nothing newer goes before it.
    await set_counted(run_history, ids[job, 10])
    await run_history.fetch("insert into evenbeat.late_run values ($1)", ids[job, 5])
    await remove(run_history)
    assert min(await run_history.kept()) == (job, 5)


async def test_the_oldest_of_a_job_go_first_so_that_its_history_never_has_a_hole(
    run_history: RunHistory,
) -> None:
    """The walk has passed run 1 when the job, which had rested, starts to run again."""
    job = await run_history.job(START - 99 * DAY)
    ids = await run_history.write(Ran(job, n, START - (90 - n) * DAY) for n in range(1, 6))
    await set_counted(run_history, ids[job, 5])
    assert (await remove(run_history, size=1)).count == 0
    await run_history.fetch("update evenbeat.pulse set run_number = 8")
    await remove(run_history, after=ids[job, 1])
    assert len(await run_history.kept()) == 5
    await remove(run_history)
    assert await run_history.kept() == {(job, 4), (job, 5)}


async def test_a_piece_is_never_larger_than_it_may_be(run_history: RunHistory) -> None:
    job = await run_history.job(START - 99 * DAY)
    ids = await run_history.write(Ran(job, n, START - (90 - n) * DAY) for n in range(1, 51))
    await set_counted(run_history, ids[job, 50])
    after, removed = 0, []
    while True:
        piece = await remove(run_history, size=7, after=after)
        removed.append(piece.count)
        after = piece.cursor
        if piece.is_end:
            break
    assert max(removed) == 7
    assert sum(removed) == 45


async def test_a_round_ends_where_runs_are_young_and_the_next_goes_on_from_there(
    run_history: RunHistory,
) -> None:
    job = await run_history.job(START - 99 * DAY)
    ids = await run_history.write(Ran(job, n, START - (40 - n) * DAY) for n in range(1, 31))
    await set_counted(run_history, ids[job, 30])
    piece = await remove(run_history, size=100)
    assert piece.is_end
    assert piece.cursor == ids[job, 10] - 1
    # Once a day it begins with the first key again.
    assert (await remove(run_history, after=piece.cursor, is_sweep_due=True)).cursor == 0


async def test_log_lines_go_with_their_run_a_few_at_a_time(run_history: RunHistory) -> None:
    job = await run_history.job(START - 99 * DAY)
    ids = await run_history.write(Ran(job, n, START - (90 - n) * DAY) for n in range(1, 8))
    lines = """
        insert into evenbeat.run_log (run_id, at, level, message)
        select $1, now(), 'info', 'line' from generate_series(1, $2::integer)
    """
    await run_history.fetch(lines, ids[job, 1], 23)
    await run_history.fetch(lines, ids[job, 7], 3)
    await set_counted(run_history, ids[job, 7])
    left = "select count(*) from evenbeat.run_log"
    for expected in (16, 6):
        piece = await remove(run_history, size=2)
        assert (piece.count, piece.is_end, piece.cursor) == (0, False, 0)
        assert await run_history.value(left) == expected
        assert len(await run_history.kept()) == 7
    assert (await remove(run_history, size=2)).count == 2
    assert await run_history.fetch("select distinct run_id from evenbeat.run_log") == [
        (ids[job, 7],)
    ]


JOBS = {
    "a one-off that completed": ({"schedule": ONCE, "state": "c"}, True),
    "a one-off that failed": ({"schedule": ONCE, "state": "f"}, True),
    "a one-off that was cancelled": ({"schedule": {"now": True}, "state": "x"}, True),
    "a one-off that is paused": ({"schedule": ONCE, "state": "z"}, False),
    "a one-off that waits": ({"schedule": ONCE, "state": "p"}, False),
    "a recurring job that came to its end": ({"state": "c"}, False),
    "a recurring job that was cancelled": ({"state": "x"}, False),
    "a deleted job": ({"state": "x", "deleted_at": START - 8 * DAY}, True),
    "a job deleted a moment ago": ({"state": "x", "deleted_at": START - 6 * DAY}, False),
}


@pytest.mark.parametrize("what", JOBS)
async def test_finished_one_off_jobs_and_deleted_ones_go(
    run_history: RunHistory, settings: Settings, what: str
) -> None:
    how, goes = JOBS[what]
    job = await run_history.job(START - 8 * DAY, **how)
    if how["state"] == "p":
        await run_history.fetch("update evenbeat.pulse set next_beat_at = $1", START + DAY)
    recent = await run_history.job(START - 6 * DAY, schedule=ONCE, state="c")
    await run_history.write([Ran(job, 1, START - 8 * DAY)])
    await tidy(janitor_of(run_history.database, settings), run_history.database)
    left = {row["id"] for row in await run_history.fetch("select id from evenbeat.job")}
    assert left == {recent} if goes else {recent, job}
    assert await run_history.kept() == {(job, 1)}
    assert await verify(run_history.database) == []


@pytest.mark.parametrize("sign", ["retry_at", "manual_at", "token"])
async def test_a_finished_job_that_somebody_has_taken_up_again_stays(
    run_history: RunHistory, settings: Settings, sign: str
) -> None:
    await run_history.job(START - 8 * DAY, schedule=ONCE, state="f")
    value = "7" if sign == "token" else "'2100-01-01Z'"
    await run_history.fetch(f"update evenbeat.pulse set {sign} = {value}, run_id = 0")
    await tidy(janitor_of(run_history.database, settings), run_history.database)
    assert len(await run_history.fetch("select from evenbeat.job")) == 1


async def test_a_job_that_somebody_holds_is_left_alone(
    run_history: RunHistory, settings: Settings, database: Database
) -> None:
    await run_history.job(START - 8 * DAY, schedule=ONCE, state="f")
    async with database.connection() as other, other.transaction():
        await other.execute("select from evenbeat.pulse for update")
        await work(janitor_of(run_history.database, settings))
        assert len(await run_history.fetch("select from evenbeat.job")) == 1


async def test_a_job_waits_until_its_runs_are_counted(run_history: RunHistory) -> None:
    job = await run_history.job(START - 8 * DAY, schedule=ONCE, state="f")
    ids = await run_history.write(Ran(job, n, START - 8 * DAY, "f") for n in (1, 2))
    for counted, late, left in ((1, 0, 1), (2, 1, 1), (2, 0, 0)):
        await set_counted(run_history, ids[job, counted])
        await run_history.fetch("delete from evenbeat.late_run")
        if late:
            await run_history.fetch("insert into evenbeat.late_run values ($1)", ids[job, late])
        async with run_history.database.transaction() as session:
            await retention.remove_jobs(session, chore_at(0), 10, KEEP)
        assert len(await run_history.fetch("select from evenbeat.job")) == left


async def test_dead_letters_of_a_removed_job_stay(
    run_history: RunHistory, settings: Settings
) -> None:
    job = await run_history.job(START - 50 * DAY, schedule=ONCE, state="f")
    ids = await run_history.write([Ran(job, 1, START - 50 * DAY, "f")])
    await run_history.fetch(
        "insert into evenbeat.dead_letter (id, job_id, kind, payload, attempts, created_at) "
        "values ($1, $2, 'echo', '{}', 1, $3)",
        *(ids[job, 1], job, START - 50 * DAY),
    )
    await tidy(janitor_of(run_history.database, settings), run_history.database)
    assert await run_history.kept() == set()
    assert await run_history.value("select count(*) from evenbeat.dead_letter") == 1
    assert await verify(run_history.database) == []


async def test_letters_go_long_after_somebody_saw_to_them_and_never_before(
    run_history: RunHistory, settings: Settings
) -> None:
    ages = {1: None, 2: 29, 3: 31, 4: 400}
    job = await run_history.job(START - 500 * DAY)
    ran = [Ran(job, number, START - (500 - number) * DAY, "f") for number in ages]
    ids = await run_history.write(ran)
    for number, age in ages.items():
        seen_at = None if age is None else START - age * DAY
        await run_history.fetch(
            "insert into evenbeat.dead_letter (id, job_id, kind, payload, attempts, created_at, "
            "acknowledged_at, acknowledged_by) values ($1, $2, 'echo', '{}', 1, $3, $4, $5)",
            *(ids[job, number], job, START - 500 * DAY, seen_at, seen_at and "ann"),
        )
    await tidy(janitor_of(run_history.database, settings, keep_runs=100), run_history.database)
    left = await run_history.fetch("select id from evenbeat.dead_letter order by id")
    assert [row["id"] for row in left] == [ids[job, 1], ids[job, 2]]
    assert await verify(run_history.database) == [], (
        "that a run is left without its letter is no fault"
    )


async def test_days_are_what_the_runs_were_and_outlive_runs_and_jobs(
    run_history: RunHistory, settings: Settings
) -> None:
    chance = random.Random(7)
    shapes = [{}, {"kind": "crawl"}, {"group": "few"}, {"schedule": ONCE, "state": "c"}]
    jobs = {await run_history.job(START - 150 * DAY, **shape): shape for shape in shapes * 5}
    runs = [run for job_id in jobs for run in story(chance, job_id)]
    await run_history.write(runs)
    janitor = janitor_of(run_history.database, settings, keep_runs=3)
    await tidy(janitor, run_history.database)
    expected: dict[tuple[object, ...], Counter[str]] = {}
    for run in runs:
        shape = jobs[run.job_id]
        job_id = 0 if "schedule" in shape else run.job_id
        day = run.started_at.date()
        key = (day, shape.get("kind", "echo"), shape.get("group", ""), job_id)
        expected.setdefault(key, Counter())[run.state] += 1
    assert await days(run_history) == {key: dict(counter) for key, counter in expected.items()}
    assert len(await run_history.kept()) < len(runs)

    # When jobs are deleted, their days lose the job's name and nothing else.
    await run_history.fetch("update evenbeat.job set deleted_at = $1", START - 9 * DAY)
    await tidy(janitor, run_history.database)
    folded: dict[tuple[object, ...], Counter[str]] = {}
    for (day, kind, group, _), counter in expected.items():
        folded.setdefault((day, kind, group, 0), Counter()).update(counter)
    assert await run_history.fetch("select from evenbeat.job") == []
    assert await days(run_history) == {key: dict(counter) for key, counter in folded.items()}
    totals = await run_history.fetch("select kind, completed + failed as n from evenbeat.run_total")
    assert sum(row["n"] for row in totals) == sum(run.state in "cfl" for run in runs)


async def test_counting_again_changes_nothing(run_history: RunHistory, settings: Settings) -> None:
    job = await run_history.job(START - 9 * DAY)
    await run_history.write(Ran(job, n, START - n * timedelta(hours=1)) for n in range(1, 200))
    janitor = janitor_of(run_history.database, settings)
    await count(janitor, run_history.database)
    before = await days(run_history)
    await count(janitor_of(run_history.database, settings), run_history.database)
    assert await days(run_history) == before
    assert sum(counter["c"] for counter in before.values()) == 199


async def test_old_days_go(run_history: RunHistory, settings: Settings) -> None:
    job = await run_history.job(START - 500 * DAY)
    ages = (401, 400, 399, 1)
    await run_history.write(Ran(job, n, START - age * DAY) for n, age in enumerate(ages, 1))
    await tidy(janitor_of(run_history.database, settings), run_history.database)
    assert {(START.date() - day).days for day, *_ in await days(run_history)} == {400, 399, 1}
    assert await verify(run_history.database) == []


async def days(run_history: RunHistory) -> dict[tuple[object, ...], dict[str, int]]:
    rows = await run_history.fetch("select * from evenbeat.run_day")
    return {
        (row["day"], row["kind"], row["group_key"], row["job_id"]): {
            state: number
            for state, number in (
                ("c", row["completed"]),
                ("f", row["failed"] - row["lost"]),
                ("l", row["lost"]),
                ("x", row["cancelled"]),
                # Beats that were passed over, three in each row.
                ("k", row["skipped"] // 3),
            )
            if number
        }
        for row in rows
        if row["duration_ms"] == 1000 * row["completed"]
    }


def chore_at(cursor: int, *, is_sweep_due: bool = False) -> Chore:
    return Chore("any", cursor, 0, START, is_sweep_due=is_sweep_due)


async def remove(
    run_history: RunHistory, *, size: int = 100, after: int = 0, is_sweep_due: bool = False
) -> retention.PieceResult:
    chore = chore_at(after, is_sweep_due=is_sweep_due)
    async with run_history.database.transaction() as session:
        return await retention.remove_runs(session, chore, size, KEEP)


async def set_counted(run_history: RunHistory, run_id: int) -> None:
    await run_history.fetch("delete from evenbeat.chore")
    await run_history.fetch(
        "insert into evenbeat.chore (name, cursor, next_at) values ('count', $1, now())", run_id
    )
