"""Groups: how many of their jobs run at once, how fast they start, and who waits."""

import asyncio
import time
from collections import defaultdict
from datetime import timedelta
from typing import Any

import pytest

from evenbeat.control.jobs.groups import Groups
from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.errors import InvalidInput, NotFound
from evenbeat.core.jobs.groups import Group, Rate
from evenbeat.core.jobs.model import Cause, Claimed, Job, State
from evenbeat.core.runs.outcome import Done, HandedBack, Lost, Outcome
from evenbeat.core.runs.registry import Registry
from evenbeat.engine.jobs.group_gate import GroupGate
from evenbeat.handlers.echo import Echo
from evenbeat.store.jobs import groups
from tests.conftest import START
from tests.store.given import FAILED, JobStore, definition
from tests.store.runs.test_claim import next_due
from tests.support.databases import Clock

TWO = Group("site", max_running=2)
THREE_IN_30_SECONDS = Group("site", rate=Rate.parse("3/30s"))
SECOND = timedelta(seconds=1)


async def add(job_store: JobStore, count: int, group: Group = TWO, **more: Any) -> list[Job]:
    """Jobs that are due, each a second before the next."""
    first = START - count * SECOND
    written = definition("now", group=group, **more)
    return [await job_store.add(written, due_at=first + place * SECOND) for place in range(count)]


def ids(found: list[Job] | list[Claimed]) -> list[int]:
    return [each.id for each in found]


async def permits(job_store: JobStore) -> int:
    return await job_store.value("select count(*) from evenbeat.permit")


async def parked(job_store: JobStore) -> list[int]:
    query = "select id from evenbeat.pulse where is_parked order by id"
    return [row["id"] for row in await job_store.fetch(query)]


async def end(job_store: JobStore, *claimed: Claimed, outcome: Outcome | None = None) -> int:
    """End these runs and let in whoever comes next, as a node does; says how many."""
    written = await job_store.write(*claimed, outcome=outcome or Done())
    assert written.run_ids == {each.run.id for each in claimed}
    return await groups.unpark_jobs(job_store.database, written.group_ids)


async def test_no_more_run_at_once_than_the_group_allows_and_the_rest_is_parked(
    job_store: JobStore,
) -> None:
    jobs = await add(job_store, 5)
    assert ids(await job_store.claim_grouped()) == ids(jobs[:2])
    assert await permits(job_store) == 2
    assert await parked(job_store) == ids(jobs[2:])
    assert await job_store.claim_grouped() == []


async def test_a_parked_job_is_shown_as_blocked_and_is_due_at_no_time(job_store: JobStore) -> None:
    *_, last = await add(job_store, 3)
    await job_store.claim_grouped()
    pulse = (await job_store.find(last)).pulse
    assert (pulse.state, pulse.due_at) == (State.BLOCKED, None)
    assert pulse.next_beat_at == START - SECOND
    assert (await next_due(job_store)).waits() == [], "it does not keep a node awake"
    in_index = "select count(*) from evenbeat.pulse where due_at is not null and token is null"
    assert await job_store.value(in_index) == 0


async def test_places_that_come_free_are_given_in_turn(job_store: JobStore, clock: Clock) -> None:
    early = await add(job_store, 4)
    urgent = await job_store.add(definition("now", group=TWO, priority=9), due_at=START - SECOND)
    jobs = [urgent, *early]
    for number in range(0, 5, 2):
        claimed = await job_store.claim_grouped()
        assert sorted(ids(claimed)) == sorted(ids(jobs[number : number + 2]))
        assert await end(job_store, *claimed) == max(0, min(2, 5 - number - 2))
    assert await parked(job_store) == []


async def test_one_free_place_lets_in_one(job_store: JobStore) -> None:
    jobs = await add(job_store, 4)
    first, _ = await job_store.claim_grouped()
    assert await end(job_store, first) == 1
    assert ids(await job_store.claim_grouped()) == [jobs[2].id]
    assert await parked(job_store) == [jobs[3].id]


async def test_a_claim_of_ungrouped_jobs_leaves_the_grouped_alone_and_the_other_way_round(
    job_store: JobStore,
) -> None:
    [grouped], alone = await add(job_store, 1), await job_store.add()
    due = await next_due(job_store)
    assert due.ungrouped_in == timedelta(0)
    assert due.grouped_in == -SECOND
    assert ids(await job_store.claim_grouped()) == [grouped.id]
    assert ids(await job_store.claim()) == [alone.id]


async def test_a_group_without_limits_holds_up_nobody(job_store: JobStore) -> None:
    jobs = await add(job_store, 30, Group("free"))
    assert ids(await job_store.claim_grouped(100)) == ids(jobs)


async def test_what_fits_but_finds_no_place_on_the_node_is_not_parked(job_store: JobStore) -> None:
    jobs = await add(job_store, 3, Group("free"))
    assert ids(await job_store.claim_grouped(2)) == ids(jobs[:2])
    assert await parked(job_store) == []
    assert ids(await job_store.claim_grouped(2)) == [jobs[2].id]


async def test_the_limits_of_groups_do_not_add_up(job_store: JobStore) -> None:
    one = await add(job_store, 3, Group("one", max_running=1))
    other = await add(job_store, 3, Group("other", max_running=2))
    claimed = await job_store.claim_grouped()
    assert ids(claimed) == sorted([one[0].id, *ids(other[:2])])


@pytest.mark.parametrize(("own", "let_in"), [(1, 1), (2, 2), (9, 3), (None, 3)])
async def test_a_job_with_a_limit_of_its_own_is_let_in_while_fewer_run(
    job_store: JobStore, own: int | None, let_in: int
) -> None:
    await add(job_store, 5, Group("site", max_running=3, job_limit=own))
    assert len(await job_store.claim_grouped()) == let_in


async def test_a_job_alone_in_its_group_runs_when_nobody_else_does(job_store: JobStore) -> None:
    [before] = await add(job_store, 1, Group("site", max_running=5))
    [claimed] = await job_store.claim_grouped()
    [modest] = await add(job_store, 1, Group("site", job_limit=1))
    assert claimed.id == before.id
    assert await job_store.claim_grouped() == []
    assert await parked(job_store) == [modest.id]
    await end(job_store, claimed)
    assert ids(await job_store.claim_grouped()) == [modest.id]


async def test_eight_sessions_at_once_never_exceed_the_limit_and_leave_nothing_undone(
    job_store: JobStore,
) -> None:
    limits = {"one": 1, "two": 2, "five": 5}
    group_of = {
        job.id: key
        for key, limit in limits.items()
        for job in await add(job_store, 40, Group(key, max_running=limit))
    }
    held: dict[str, list[tuple[float, int]]] = defaultdict(list)
    done: list[int] = []
    most = 0

    async def work() -> None:
        nonlocal most
        while len(done) < len(group_of):
            claimed = await job_store.claim_grouped(3)
            for each in claimed:
                held[group_of[each.id]].append((time.monotonic(), 1))
            counted = await job_store.fetch(
                "select job_group.key, count(*) from evenbeat.permit"
                " join evenbeat.job_group on job_group.id = permit.group_id group by 1"
            )
            assert all(count <= limits[key] for key, count in counted), counted
            most = max([most, *(count for _, count in counted)])
            for each in claimed:
                held[group_of[each.id]].append((time.monotonic(), -1))
                await end(job_store, each)
                done.append(each.id)
            if not claimed and (waiting := await groups.find_groups_with_room(job_store.database)):
                await groups.unpark_jobs(job_store.database, waiting)

    async with asyncio.timeout(30):
        await asyncio.gather(*(work() for _ in range(8)))
    assert sorted(done) == sorted(group_of)
    for key, limit in limits.items():
        running = 0
        for _, step in sorted(held[key]):
            running += step
            assert running <= limit, f"{running} at once in {key}"
    assert most > 1, "the sessions did get in each other's way"
    assert await permits(job_store) == 0
    assert await parked(job_store) == []


@pytest.mark.parametrize("outcome", [Done(), FAILED, Lost(), HandedBack()])
async def test_a_permit_ends_with_its_run_however_that_ends(
    job_store: JobStore, outcome: Outcome
) -> None:
    await add(job_store, 3)
    claimed = await job_store.claim_grouped()
    assert await permits(job_store) == 2
    assert await end(job_store, *claimed, outcome=outcome) == 1
    assert await permits(job_store) == 0


async def test_who_was_fenced_gives_no_place_back(job_store: JobStore) -> None:
    await add(job_store, 2)
    claimed = await job_store.claim_grouped()
    await job_store.fetch("update evenbeat.pulse set token = token + 1")
    written = await job_store.write(*claimed)
    assert (written.run_ids, written.group_ids) == (frozenset(), frozenset())
    assert await permits(job_store) == 2


async def test_a_retry_takes_a_place_too(job_store: JobStore, clock: Clock) -> None:
    failing, other = await add(job_store, 2, Group("site", max_running=1))
    [claimed] = await job_store.claim_grouped()
    assert await end(job_store, claimed, outcome=FAILED) == 1
    await clock.advance(minutes=1)
    [second] = await job_store.claim_grouped()
    assert (claimed.id, second.id) == (failing.id, other.id)
    assert (await job_store.find(failing)).pulse.state is State.BLOCKED
    await end(job_store, second)
    [again] = await job_store.claim_grouped()
    assert (again.id, again.run.cause, again.run.attempt) == (failing.id, Cause.RETRY, 2)
    assert await permits(job_store) == 1


async def test_a_parked_job_whose_place_came_free_while_nobody_looked_is_let_in_by_the_usher(
    job_store: JobStore,
) -> None:
    jobs = await add(job_store, 3)
    usher = GroupGate(job_store.database)
    claimed = await job_store.claim_grouped()
    assert (await usher.turn())[0] == 0, "there is no room"
    await job_store.end(*claimed)
    assert (await usher.turn())[0] == 1
    assert ids(await job_store.claim_grouped()) == [jobs[2].id]


async def test_the_first_job_makes_the_group_and_later_ones_find_it_as_it_is(
    job_store: JobStore,
) -> None:
    await add(job_store, 1, Group("site", max_running=2, rate=Rate.parse("6/m")))
    made = await groups.find_group(job_store.database, "site")
    assert (made.max_running, made.pace, made.burst) == (2, timedelta(seconds=10), 6)
    await add(job_store, 1, Group("site", max_running=99, rate=Rate.parse("1/h")))
    assert await groups.find_group(job_store.database, "site") == made


async def test_jobs_added_at_once_make_their_group_once(job_store: JobStore) -> None:
    written = definition("now", group=TWO)
    await asyncio.gather(*(job_store.add(written) for _ in range(10)))
    assert await job_store.value("select count(*) from evenbeat.job_group") == 1
    assert len(await job_store.claim_grouped()) == 2


async def test_a_group_that_does_not_exist_is_not_found(job_store: JobStore) -> None:
    control = Groups(job_store.database)
    for action in (control.get("none"), control.pause("none"), control.resume("none")):
        with pytest.raises(NotFound, match="no group 'none'"):
            await action


# The pace.


async def test_a_pace_admits_its_burst_and_then_one_at_a_time(
    job_store: JobStore, clock: Clock
) -> None:
    jobs = await add(job_store, 6, THREE_IN_30_SECONDS)
    usher = GroupGate(job_store.database)
    assert ids(await job_store.claim_grouped()) == ids(jobs[:3])
    assert await job_store.value("select ready_at from evenbeat.job_group") == START + 10 * SECOND
    assert await usher.turn() == (0, SECOND)
    await clock.advance(seconds=9.9)
    let_in, pause = await usher.turn()
    assert (let_in, pause) == (0, timedelta(seconds=0.1))
    for number in (3, 4, 5):
        await clock.set_to(START + (number - 2) * 10 * SECOND)
        assert (await usher.turn())[0] == 1, "no more than the pace admits"
        assert ids(await job_store.claim_grouped()) == [jobs[number].id]
        assert await job_store.claim_grouped() == []


async def test_the_end_of_a_run_does_not_quicken_the_pace(job_store: JobStore) -> None:
    await add(job_store, 5, THREE_IN_30_SECONDS)
    assert await end(job_store, *await job_store.claim_grouped()) == 0
    assert len(await parked(job_store)) == 2


async def test_whoever_waits_for_the_pace_is_let_in_though_others_came_in_meanwhile(
    job_store: JobStore, clock: Clock
) -> None:
    await add(job_store, 4, THREE_IN_30_SECONDS)
    await job_store.claim_grouped()
    [waiting] = await parked(job_store)
    await clock.advance(seconds=20)
    # Two fit by now: one that comes just before the group gate, and the one that waits.
    await job_store.add(definition("now", group=THREE_IN_30_SECONDS))
    assert len(await job_store.claim_grouped()) == 1
    assert (await GroupGate(job_store.database).turn())[0] == 1
    assert ids(await job_store.claim_grouped()) == [waiting]


async def test_after_a_long_rest_there_is_one_burst_and_no_more(
    job_store: JobStore, clock: Clock
) -> None:
    await add(job_store, 3, THREE_IN_30_SECONDS)
    await job_store.claim_grouped()
    await clock.advance(days=1)
    await add(job_store, 9, THREE_IN_30_SECONDS)
    assert len(await job_store.claim_grouped()) == 3


async def test_limit_and_pace_hold_together(job_store: JobStore, clock: Clock) -> None:
    both = Group("site", max_running=2, rate=Rate.parse("3/30s"))
    await add(job_store, 5, both)
    usher = GroupGate(job_store.database)
    first = await job_store.claim_grouped()
    assert len(first) == 2
    assert (await usher.turn()) == (0, SECOND), "full: there is nothing to hurry for"
    assert await end(job_store, *first) == 1, "the third of the burst"
    assert len(await job_store.claim_grouped()) == 1
    assert (await usher.turn())[0] == 0
    await clock.advance(seconds=10)
    assert (await usher.turn())[0] == 1
    assert len(await job_store.claim_grouped()) == 1


# What people do to a group.


async def test_a_paused_group_admits_nothing_until_it_is_resumed(job_store: JobStore) -> None:
    await add(job_store, 3)
    control, usher = Groups(job_store.database), GroupGate(job_store.database)
    [running] = await job_store.claim_grouped(1)
    assert (await control.pause("site")).paused_at == START
    assert await job_store.claim_grouped() == []
    assert len(await parked(job_store)) == 2
    assert await end(job_store, running) == 0, "what runs may finish, and nobody follows"
    assert await usher.turn() == (0, SECOND)
    assert (await control.resume("site")).paused_at is None
    assert len(await job_store.claim_grouped()) == 2


async def test_a_paused_group_with_a_pace_keeps_nobody_busy(job_store: JobStore) -> None:
    await add(job_store, 3, THREE_IN_30_SECONDS)
    await Groups(job_store.database).pause("site")
    assert await job_store.claim_grouped() == []
    assert await GroupGate(job_store.database).turn() == (0, SECOND)


async def test_a_raised_limit_lets_in_whoever_fits_now(job_store: JobStore) -> None:
    await add(job_store, 6)
    await job_store.claim_grouped()
    changed = await Groups(job_store.database).put(Group("site", max_running=4))
    assert changed.max_running == 4
    assert len(await job_store.claim_grouped()) == 2


async def test_a_lowered_limit_stops_nobody_and_lets_in_nobody(job_store: JobStore) -> None:
    await add(job_store, 6)
    claimed = await job_store.claim_grouped()
    await Groups(job_store.database).put(Group("site", max_running=1))
    assert await end(job_store, claimed[0]) == 0
    assert await end(job_store, claimed[1]) == 1
    assert len(await job_store.claim_grouped()) == 1


async def test_a_pace_that_is_taken_away_holds_up_nobody_any_more(job_store: JobStore) -> None:
    await add(job_store, 6, Group("site", rate=Rate.parse("1/h")))
    assert len(await job_store.claim_grouped()) == 1
    await Groups(job_store.database).put(Group("site"))
    assert len(await job_store.claim_grouped()) == 5


async def test_a_quicker_pace_holds_at_once(job_store: JobStore, clock: Clock) -> None:
    await add(job_store, 6, Group("site", rate=Rate.parse("1/h")))
    await job_store.claim_grouped()
    await Groups(job_store.database).put(Group("site", rate=Rate.parse("1/10s")))
    usher, let_in = GroupGate(job_store.database), 0
    for _ in range(3):
        let_in += len(await job_store.claim_grouped())
        await clock.advance(seconds=10)
        await usher.turn()
    assert let_in == 3


# Keys.


@pytest.mark.parametrize(
    ("key", "made"),
    [
        ("fixed", "fixed"),
        ("host:{payload.host}", "host:example.org"),
        ("{kind}/{name}", "echo/nightly"),
        ("{payload.deep.er}:{labels.team}", "7:search"),
    ],
)
async def test_a_key_is_made_from_the_job(job_store: JobStore, key: str, made: str) -> None:
    payload = {"host": "example.org", "deep": {"er": 7}}
    job = await Jobs(job_store.database, Registry([Echo()])).add(
        definition(
            "now",
            name="nightly",
            payload=payload,
            labels={"team": "search"},
            group=Group(key, max_running=3, job_limit=2),
        )
    )
    assert job.definition.group == Group(made, job_limit=2)
    assert (await Groups(job_store.database).get(made)).max_running == 3


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("host:{payload.host}", "no 'payload.host'"),
        ("{payload.list}", "neither text nor a whole number"),
        ("{payload.flag}", "neither text nor a whole number"),
        ("{name}", "neither text"),
        ("{payload.list.x}", "no 'payload.list.x'"),
        ("{elsewhere}", "no 'elsewhere'"),
        ("{payload", "not closed"),
        ("{payload.empty}", "empty"),
        ("{payload.long}", "longer than 200"),
    ],
)
async def test_a_key_that_cannot_be_made_is_refused_and_nothing_is_stored(
    job_store: JobStore, key: str, why: str
) -> None:
    payload = {"list": [1], "flag": True, "empty": "", "long": "x" * 201}
    control = Jobs(job_store.database, Registry([Echo()]))
    with pytest.raises(InvalidInput, match=why) as refused:
        await control.add(definition("now", payload=payload, group=Group(key)))
    assert refused.value.errors[0].field == "group.key"
    assert await job_store.value("select count(*) from evenbeat.job_group") == 0
    assert await job_store.value("select count(*) from evenbeat.job") == 0


async def test_the_largest_limits_can_be_stored(job_store: JobStore) -> None:
    largest = Group("site", max_running=100_000, rate=Rate(100_000, SECOND), job_limit=32_767)
    job = await job_store.add(definition("now", group=largest))
    assert job.definition.group == Group("site", job_limit=32_767)
    assert ids(await job_store.claim_grouped()) == [job.id]
    with pytest.raises(InvalidInput, match="32767"):
        Group("site", job_limit=32_768)
