"""Groups in the hands of people: who is in them, what they allow, and who changed that."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.control.jobs.groups import Groups
from evenbeat.core.errors import NotFound
from evenbeat.core.jobs.groups import Group, Rate
from evenbeat.core.jobs.model import Job
from tests.conftest import START
from tests.control.controlled_jobs import ANN, ControlledJobs, due
from tests.support.databases import Clock

TWO = Group("site", max_running=2)


async def add(controlled: ControlledJobs, count: int, group: Group = TWO, **more: Any) -> list[Job]:
    return [await controlled.add(due("now", group=group, **more)) for _ in range(count)]


async def test_a_group_tells_who_has_a_place_and_who_waits_since_when(
    controlled: ControlledJobs, clock: Clock
) -> None:
    first = await add(controlled, 2, name=None)
    await controlled.take_all()
    await clock.advance(minutes=1)
    third = await controlled.add(due("now", group=TWO, name="third"))
    await clock.advance(minutes=1)
    fourth = await controlled.add(due("now", group=TWO, priority=50))
    assert await controlled.take_all() == []
    seen = await Groups(controlled.database).members("site")
    assert (seen.occupied.running, seen.occupied.waiting) == (2, 2)
    assert seen.occupied.waiting_since == START + timedelta(minutes=1)
    assert {each.uid for each in seen.holders} == {job.uid for job in first}
    assert {(each.since, each.node) for each in seen.holders} == {(START, "a:1")}
    minutes = [(each.uid, (each.since - START).total_seconds() / 60) for each in seen.waiting]
    assert minutes == [(fourth.uid, 2), (third.uid, 1)], "in turn: priority counts"
    assert seen.waiting[1].name == "third"
    page = await Groups(controlled.database).members("site", limit=1, offset=1)
    assert [each.uid for each in page.waiting] == [third.uid]


async def test_groups_are_listed_by_key_and_searched(controlled: ControlledJobs) -> None:
    for key in ("host:b", "host:a", "mail"):
        await add(controlled, 1, Group(key, max_running=1))
    await controlled.take_all()
    control = Groups(controlled.database)
    everyone = await control.page()
    assert [each.group.key for each in everyone.groups] == ["host:a", "host:b", "mail"]
    assert [(each.running, each.waiting) for each in everyone.groups] == [(1, 0)] * 3
    assert everyone.total == 3
    hosts = await control.page(search="HOST:", limit=1, offset=1)
    assert ([each.group.key for each in hosts.groups], hosts.total) == (["host:b"], 2)
    assert (await control.page(search="%")).total == 0, "a character like any other"


async def test_a_group_may_be_there_before_its_first_job(controlled: ControlledJobs) -> None:
    control = Groups(controlled.database)
    made = await control.put(Group("site", max_running=1, rate=Rate.parse("7/m")), by=ANN)
    assert (made.is_new, made.max_running, str(made.rate)) == (True, 1, "7/1m")
    await add(controlled, 2, TWO)
    assert len(await controlled.take_all()) == 1, "later jobs do not change it"
    assert (await control.put(TWO)).is_new is False


async def test_whoever_adds_or_changes_a_job_is_warned_of_limits_that_its_group_has_not(
    controlled: ControlledJobs, caller: Any
) -> None:
    for group in (TWO, TWO, Group("site", job_limit=1)):
        assert (await controlled.jobs.add(due(group=group))).warnings == ()
    other = due(name="other", group=Group("site", max_running=5, rate=Rate.parse("1/s")))
    made = await controlled.jobs.add(other)
    first, second = made.warnings
    assert first.startswith("limits.max_running 5 is not used: group 'site' has 2")
    assert second.startswith("limits.rate 1/1s is not used: group 'site' has none")
    assert (await controlled.jobs.put(other)).warnings == made.warnings, "which changes nothing"
    assert (await controlled.jobs.put(replace(other, priority=2))).warnings == made.warnings
    assert (await controlled.jobs.edit(made.uid, other)).warnings == made.warnings
    assert (await controlled.jobs.get(made.uid)).warnings == ()
    batch = await controlled.jobs.add_many([replace(other, name=None)] * 3)
    assert batch.warnings == made.warnings
    async with caller.transaction():
        new = Group("theirs", max_running=1)
        assert (await controlled.jobs.add(due(group=new), connection=caller)).warnings == ()
        five = replace(new, max_running=5)
        held = await controlled.jobs.add(due(group=five), connection=caller, dedupe_key="x")
        again = await controlled.jobs.add(due(group=five), connection=caller, dedupe_key="x")
    assert (len(held.warnings), again.warnings, again.is_new) == (1, held.warnings, False)


async def test_every_change_of_a_group_is_audited(controlled: ControlledJobs) -> None:
    control = Groups(controlled.database)
    await control.put(Group("site", max_running=2), by=ANN)
    await control.put(Group("site", max_running=3, rate=Rate.parse("5/30s")), by=ANN)
    await control.pause("site", by=ANN)
    await control.resume("site", by=ANN)
    told = [(each.action, each.before, each.after) for each in await controlled.audit(actor="ann")]
    assert told[::-1] == [
        ("put_group", {"is_paused": None, "max_running": None}, {
            "group": "site", "is_paused": False, "max_running": 2
        }),
        ("put_group", {"max_running": 2, "rate": None}, {
            "group": "site", "max_running": 3, "rate": "5/30s"
        }),
        ("pause_group", {"is_paused": False}, {"group": "site", "is_paused": True}),
        ("resume_group", {"is_paused": True}, {"group": "site", "is_paused": False}),
    ]  # fmt: skip


async def test_what_came_to_nothing_is_not_audited(controlled: ControlledJobs) -> None:
    with pytest.raises(NotFound):
        await Groups(controlled.database).pause("none", by=ANN)
    assert await controlled.audit() == []


async def test_a_group_that_is_paused_twice_is_paused_since_the_first_time(
    controlled: ControlledJobs, clock: Clock
) -> None:
    control = Groups(controlled.database)
    await control.put(TWO)
    await control.pause("site")
    await clock.advance(minutes=5)
    assert (await control.pause("site")).paused_at == START


@pytest.mark.parametrize("text", ["1/s", "7/1m", "3/1m40s", "100000/31d", "13/7s", "5/30s"])
def test_a_rate_comes_back_from_its_pace_as_it_was_written(text: str) -> None:
    rate = Rate.parse(text)
    assert Rate.paced(rate.pace, rate.count) == rate
