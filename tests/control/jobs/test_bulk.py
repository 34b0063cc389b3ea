"""Many jobs at once: who is meant, what would happen, and all or nothing."""

import asyncio
from typing import Any

import asyncpg
import pytest

from evenbeat.control.jobs import actions
from evenbeat.core.errors import Conflict, InvalidInput
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.groups import Group
from evenbeat.core.jobs.lifecycle import Action
from evenbeat.core.jobs.model import Job, State
from tests.control.controlled_jobs import ANN, ControlledJobs, due
from tests.support.waiting import eventually

SORTS: dict[str, dict[str, Any]] = {
    "nightly crawl": {"kind": "crawl", "labels": {"source": "import", "team": "a"}},
    "Nightly report": {"labels": {"team": "a"}, "group": Group("site")},
    "50%_done": {"schedule": "now"},
}


@pytest.fixture
async def named(controlled: ControlledJobs) -> dict[str, Job]:
    """One job of every sort that a filter can tell apart."""
    return {name: await controlled.add(due(name=name, **sort)) for name, sort in SORTS.items()}


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({}, {"nightly crawl", "Nightly report", "50%_done"}),
        ({"kinds": {"crawl"}}, {"nightly crawl"}),
        ({"groups": {"site"}}, {"Nightly report"}),
        ({"labels": {"team": "a"}}, {"nightly crawl", "Nightly report"}),
        ({"labels": {"team": "a", "source": "import"}}, {"nightly crawl"}),
        ({"search": "NIGHTLY"}, {"nightly crawl", "Nightly report"}),
        ({"search": "%_"}, {"50%_done"}),
        ({"states": {State.PENDING}}, {"50%_done"}),
        ({"states": {State.SCHEDULED}, "kinds": {"echo"}}, {"Nightly report"}),
        ({"states": set()}, set()),
        ({"uids": set()}, set()),
    ],
)
async def test_a_filter_finds_those_for_whom_every_condition_holds(
    controlled: ControlledJobs, named: dict[str, Job], conditions: dict[str, Any], found: set[str]
) -> None:
    frozen = {
        name: frozenset(value) if isinstance(value, set) else value
        for name, value in conditions.items()
    }
    told = await controlled.jobs.act(Action.PAUSE, Filter(**frozen), dry_run=True)
    assert set(told.changed) == {named[name].uid for name in found}


async def test_a_dry_run_says_what_would_happen_and_changes_nothing(
    controlled: ControlledJobs, named: dict[str, Job]
) -> None:
    await controlled.jobs.pause(named["50%_done"].uid)
    before = [await controlled.find(job) for job in named.values()]
    told = await controlled.jobs.act(Action.PAUSE, Filter(), by=ANN, dry_run=True)
    assert told.is_dry_run
    assert set(told.changed) == {named["nightly crawl"].uid, named["Nightly report"].uid}
    [refused] = told.refused
    assert (refused.uid, refused.name) == (named["50%_done"].uid, "50%_done")
    assert str(refused.error).startswith("cannot pause a job that is paused; allowed now: run,")
    assert [await controlled.find(job) for job in named.values()] == before
    assert await controlled.audit(actor=ANN.name) == []


async def test_one_that_refuses_stops_all_of_it_and_is_named(
    controlled: ControlledJobs, named: dict[str, Job]
) -> None:
    await controlled.jobs.pause(named["50%_done"].uid)
    with pytest.raises(Conflict, match=r"cannot pause 1 of 3 jobs, so none .* 50%_done: cannot"):
        await controlled.jobs.act(Action.PAUSE, Filter(), by=ANN)
    assert (await controlled.find(named["nightly crawl"])).pulse.state is State.SCHEDULED
    assert await controlled.audit(actor=ANN.name) == []


async def test_those_that_refuse_are_skipped_if_that_is_asked_for(
    controlled: ControlledJobs, named: dict[str, Job]
) -> None:
    await controlled.jobs.pause(named["50%_done"].uid)
    told = await controlled.jobs.act(Action.PAUSE, Filter(), by=ANN, skip_refused=True)
    assert (len(told.changed), len(told.refused)) == (2, 1)
    states = {(await controlled.find(job)).pulse.state for job in named.values()}
    assert states == {State.PAUSED}
    assert {entry.job_uid for entry in await controlled.audit(actor=ANN.name)} == set(told.changed)


async def test_nobody_meant_is_nothing_done(controlled: ControlledJobs) -> None:
    told = await controlled.jobs.act(Action.DELETE, Filter(search="nowhere"))
    assert (told.changed, told.refused) == ((), ())


async def test_more_than_the_most_is_refused_before_anything_is_locked(
    controlled: ControlledJobs, named: dict[str, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MOST_AT_ONCE", 2)
    with pytest.raises(InvalidInput, match="filter: finds more than 2 jobs: narrow it down"):
        await controlled.jobs.act(Action.PAUSE, Filter())
    assert (
        len((await controlled.jobs.act(Action.PAUSE, Filter(kinds=frozenset(["echo"])))).changed)
        == 2
    )


async def test_an_edit_is_for_one_job(controlled: ControlledJobs) -> None:
    with pytest.raises(InvalidInput, match="action: edit takes one job"):
        await controlled.jobs.act(Action.EDIT, Filter())


async def test_every_action_that_needs_only_its_name_can_be_done_to_many(
    controlled: ControlledJobs,
) -> None:
    many = [await controlled.add(due()) for _ in range(20)]
    whole = Filter(uids=frozenset(job.uid for job in many))
    steps = [
        (Action.PAUSE, State.PAUSED),
        (Action.RESUME, State.SCHEDULED),
        (Action.DISABLE, State.DISABLED),
        (Action.ENABLE, State.SCHEDULED),
        (Action.CANCEL, State.CANCELLED),
        (Action.RETRY, State.SCHEDULED),
        (Action.RELEASE, State.SCHEDULED),
    ]
    for action, state in steps:
        if action is Action.RELEASE:
            assert len(await controlled.claim(20)) == 20
        told = await controlled.jobs.act(action, whole)
        assert list(told.changed) == [job.uid for job in many], "in the order of their ids"
        assert {(await controlled.find(job)).pulse.state for job in many} == {state}
    await controlled.jobs.act(Action.DELETE, whole)
    assert (await controlled.jobs.act(Action.PAUSE, whole)).changed == ()


async def test_two_who_act_on_the_same_jobs_do_not_wait_for_each_other_in_a_circle(
    controlled: ControlledJobs,
) -> None:
    for _ in range(50):
        await controlled.add(due())
    actors = [
        controlled.jobs.act(action, Filter(), skip_refused=True)
        for action in (Action.PAUSE, Action.RESUME, Action.DISABLE, Action.ENABLE) * 5
    ]
    told = await asyncio.gather(*actors)
    assert {len(each.changed) + len(each.refused) for each in told} == {50}


async def test_who_moved_before_the_lock_was_had_is_not_meant_any_more(
    controlled: ControlledJobs, named: dict[str, Job]
) -> None:
    """Somebody claims between the look and the lock: the filter asks for jobs at rest."""
    waiting = Filter(kinds=frozenset(["crawl"]), states=frozenset([State.SCHEDULED]))
    other = await asyncpg.connect(controlled.database.url)
    moving = other.transaction()
    await moving.start()
    await other.execute("update evenbeat.pulse set state = 'z'")
    asked = asyncio.ensure_future(controlled.jobs.act(Action.CANCEL, waiting))
    await eventually_waits(controlled)
    await moving.commit()
    await other.close()
    assert (await asked).changed == ()
    assert (await controlled.find(named["nightly crawl"])).pulse.state is State.PAUSED


async def eventually_waits(controlled: ControlledJobs) -> None:
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    await eventually(lambda: controlled.value(query), "somebody waits for a lock")
