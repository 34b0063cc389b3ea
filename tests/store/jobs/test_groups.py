"""Groups: how many of their jobs run at once, how fast they start, and which jobs wait."""

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
from tests.store.given import FAILED, Shop, definition
from tests.store.runs.test_claim import next_due
from tests.support.databases import Clock

TWO = Group("site", max_running=2)
THREE_IN_30_SECONDS = Group("site", rate=Rate.parse("3/30s"))
SECOND = timedelta(seconds=1)


async def add(shop: Shop, count: int, group: Group = TWO, **more: Any) -> list[Job]:
    """Jobs that are due, each a second before the next."""
    first = START - count * SECOND
    written = definition("now", group=group, **more)
    return [await shop.add(written, due_at=first + place * SECOND) for place in range(count)]


def ids(found: list[Job] | list[Claimed]) -> list[int]:
    return [each.id for each in found]


async def permits(shop: Shop) -> int:
    return await shop.value("select count(*) from evenbeat.permit")


async def parked(shop: Shop) -> list[int]:
    query = "select id from evenbeat.pulse where is_parked order by id"
    return [row["id"] for row in await shop.fetch(query)]


async def end(shop: Shop, *claimed: Claimed, outcome: Outcome | None = None) -> int:
    """End these runs and unpark the next jobs, as a node does; returns how many."""
    written = await shop.write(*claimed, outcome=outcome or Done())
    assert written.run_ids == {each.run.id for each in claimed}
    return await groups.unpark_jobs(shop.database, written.group_ids)


async def test_no_more_run_at_once_than_the_group_allows_and_the_rest_is_parked(
    shop: Shop,
) -> None:
    jobs = await add(shop, 5)
    assert ids(await shop.claim_grouped()) == ids(jobs[:2])
    assert await permits(shop) == 2
    assert await parked(shop) == ids(jobs[2:])
    assert await shop.claim_grouped() == []


async def test_a_parked_job_is_shown_as_blocked_and_is_due_at_no_time(shop: Shop) -> None:
    *_, last = await add(shop, 3)
    await shop.claim_grouped()
    pulse = (await shop.look(last)).pulse
    assert (pulse.state, pulse.due_at) == (State.BLOCKED, None)
    assert pulse.next_beat_at == START - SECOND
    assert (await next_due(shop)).waits() == [], "it does not keep a node awake"
    in_index = "select count(*) from evenbeat.pulse where due_at is not null and token is null"
    assert await shop.value(in_index) == 0


async def test_free_places_are_given_in_turn(shop: Shop, clock: Clock) -> None:
    early = await add(shop, 4)
    urgent = await shop.add(definition("now", group=TWO, priority=9), due_at=START - SECOND)
    jobs = [urgent, *early]
    for number in range(0, 5, 2):
        claimed = await shop.claim_grouped()
        assert sorted(ids(claimed)) == sorted(ids(jobs[number : number + 2]))
        assert await end(shop, *claimed) == max(0, min(2, 5 - number - 2))
    assert await parked(shop) == []


async def test_one_free_place_lets_in_one(shop: Shop) -> None:
    jobs = await add(shop, 4)
    first, _ = await shop.claim_grouped()
    assert await end(shop, first) == 1
    assert ids(await shop.claim_grouped()) == [jobs[2].id]
    assert await parked(shop) == [jobs[3].id]


async def test_a_claim_of_ungrouped_jobs_leaves_the_grouped_alone_and_the_other_way_round(
    shop: Shop,
) -> None:
    [grouped], alone = await add(shop, 1), await shop.add()
    due = await next_due(shop)
    assert due.ungrouped_in == timedelta(0)
    assert due.grouped_in == -SECOND
    assert ids(await shop.claim_grouped()) == [grouped.id]
    assert ids(await shop.claim()) == [alone.id]


async def test_a_group_without_limits_delays_no_job(shop: Shop) -> None:
    jobs = await add(shop, 30, Group("free"))
    assert ids(await shop.claim_grouped(100)) == ids(jobs)


async def test_a_job_that_fits_its_group_but_not_the_node_is_not_parked(shop: Shop) -> None:
    jobs = await add(shop, 3, Group("free"))
    assert ids(await shop.claim_grouped(2)) == ids(jobs[:2])
    assert await parked(shop) == []
    assert ids(await shop.claim_grouped(2)) == [jobs[2].id]


async def test_the_limits_of_groups_do_not_add_up(shop: Shop) -> None:
    one = await add(shop, 3, Group("one", max_running=1))
    other = await add(shop, 3, Group("other", max_running=2))
    claimed = await shop.claim_grouped()
    assert ids(claimed) == sorted([one[0].id, *ids(other[:2])])


@pytest.mark.parametrize(("own", "let_in"), [(1, 1), (2, 2), (9, 3), (None, 3)])
async def test_a_job_with_a_limit_of_its_own_is_let_in_while_fewer_run(
    shop: Shop, own: int | None, let_in: int
) -> None:
    await add(shop, 5, Group("site", max_running=3, job_limit=own))
    assert len(await shop.claim_grouped()) == let_in


async def test_a_job_with_job_limit_one_runs_when_no_other_does(shop: Shop) -> None:
    [before] = await add(shop, 1, Group("site", max_running=5))
    [claimed] = await shop.claim_grouped()
    [modest] = await add(shop, 1, Group("site", job_limit=1))
    assert claimed.id == before.id
    assert await shop.claim_grouped() == []
    assert await parked(shop) == [modest.id]
    await end(shop, claimed)
    assert ids(await shop.claim_grouped()) == [modest.id]


async def test_eight_sessions_at_once_never_exceed_the_limit_and_leave_nothing_undone(
    shop: Shop,
) -> None:
    limits = {"one": 1, "two": 2, "five": 5}
    group_of = {
        job.id: key
        for key, limit in limits.items()
        for job in await add(shop, 40, Group(key, max_running=limit))
    }
    held: dict[str, list[tuple[float, int]]] = defaultdict(list)
    done: list[int] = []
    most = 0

    async def work() -> None:
        nonlocal most
        while len(done) < len(group_of):
            claimed = await shop.claim_grouped(3)
            for each in claimed:
                held[group_of[each.id]].append((time.monotonic(), 1))
            counted = await shop.fetch(
                "select job_group.key, count(*) from evenbeat.permit"
                " join evenbeat.job_group on job_group.id = permit.group_id group by 1"
            )
            assert all(count <= limits[key] for key, count in counted), counted
            most = max([most, *(count for _, count in counted)])
            for each in claimed:
                held[group_of[each.id]].append((time.monotonic(), -1))
                await end(shop, each)
                done.append(each.id)
            if not claimed and (waiting := await groups.find_groups_with_room(shop.database)):
                await groups.unpark_jobs(shop.database, waiting)

    async with asyncio.timeout(30):
        await asyncio.gather(*(work() for _ in range(8)))
    assert sorted(done) == sorted(group_of)
    for key, limit in limits.items():
        running = 0
        for _, step in sorted(held[key]):
            running += step
            assert running <= limit, f"{running} at once in {key}"
    assert most > 1, "the sessions did get in each other's way"
    assert await permits(shop) == 0
    assert await parked(shop) == []


@pytest.mark.parametrize("outcome", [Done(), FAILED, Lost(), HandedBack()])
async def test_a_permit_ends_with_its_run_however_that_ends(shop: Shop, outcome: Outcome) -> None:
    await add(shop, 3)
    claimed = await shop.claim_grouped()
    assert await permits(shop) == 2
    assert await end(shop, *claimed, outcome=outcome) == 1
    assert await permits(shop) == 0


async def test_a_fenced_run_gives_no_place_back(shop: Shop) -> None:
    await add(shop, 2)
    claimed = await shop.claim_grouped()
    await shop.fetch("update evenbeat.pulse set token = token + 1")
    written = await shop.write(*claimed)
    assert (written.run_ids, written.group_ids) == (frozenset(), frozenset())
    assert await permits(shop) == 2


async def test_a_retry_takes_a_place_too(shop: Shop, clock: Clock) -> None:
    failing, other = await add(shop, 2, Group("site", max_running=1))
    [claimed] = await shop.claim_grouped()
    assert await end(shop, claimed, outcome=FAILED) == 1
    await clock.advance(minutes=1)
    [second] = await shop.claim_grouped()
    assert (claimed.id, second.id) == (failing.id, other.id)
    assert (await shop.look(failing)).pulse.state is State.BLOCKED
    await end(shop, second)
    [again] = await shop.claim_grouped()
    assert (again.id, again.run.cause, again.run.attempt) == (failing.id, Cause.RETRY, 2)
    assert await permits(shop) == 1


async def test_a_parked_job_that_a_dead_node_left_behind_is_found_by_the_group_gate(
    shop: Shop,
) -> None:
    jobs = await add(shop, 3)
    gate = GroupGate(shop.database)
    claimed = await shop.claim_grouped()
    assert (await gate.turn())[0] == 0, "there is no room"
    await shop.end(*claimed)
    assert (await gate.turn())[0] == 1
    assert ids(await shop.claim_grouped()) == [jobs[2].id]


async def test_the_first_job_makes_the_group_and_later_ones_find_it_as_it_is(shop: Shop) -> None:
    await add(shop, 1, Group("site", max_running=2, rate=Rate.parse("6/m")))
    made = await groups.find_group(shop.database, "site")
    assert (made.max_running, made.pace, made.burst) == (2, timedelta(seconds=10), 6)
    await add(shop, 1, Group("site", max_running=99, rate=Rate.parse("1/h")))
    assert await groups.find_group(shop.database, "site") == made


async def test_jobs_added_at_once_make_their_group_once(shop: Shop) -> None:
    written = definition("now", group=TWO)
    await asyncio.gather(*(shop.add(written) for _ in range(10)))
    assert await shop.value("select count(*) from evenbeat.job_group") == 1
    assert len(await shop.claim_grouped()) == 2


async def test_a_group_that_does_not_exist_is_not_found(shop: Shop) -> None:
    control = Groups(shop.database)
    for action in (control.get("none"), control.pause("none"), control.resume("none")):
        with pytest.raises(NotFound, match="no group 'none'"):
            await action


# The pace.


async def test_a_pace_admits_its_burst_and_then_one_at_a_time(shop: Shop, clock: Clock) -> None:
    jobs = await add(shop, 6, THREE_IN_30_SECONDS)
    gate = GroupGate(shop.database)
    assert ids(await shop.claim_grouped()) == ids(jobs[:3])
    assert await shop.value("select ready_at from evenbeat.job_group") == START + 10 * SECOND
    assert await gate.turn() == (0, SECOND)
    await clock.advance(seconds=9.9)
    let_in, pause = await gate.turn()
    assert (let_in, pause) == (0, timedelta(seconds=0.1))
    for number in (3, 4, 5):
        await clock.set_to(START + (number - 2) * 10 * SECOND)
        assert (await gate.turn())[0] == 1, "no more than the pace admits"
        assert ids(await shop.claim_grouped()) == [jobs[number].id]
        assert await shop.claim_grouped() == []


async def test_the_end_of_a_run_does_not_quicken_the_pace(shop: Shop) -> None:
    await add(shop, 5, THREE_IN_30_SECONDS)
    assert await end(shop, *await shop.claim_grouped()) == 0
    assert len(await parked(shop)) == 2


async def test_a_job_that_waits_for_the_pace_starts_though_others_arrived_meanwhile(
    shop: Shop, clock: Clock
) -> None:
    await add(shop, 4, THREE_IN_30_SECONDS)
    await shop.claim_grouped()
    [waiting] = await parked(shop)
    await clock.advance(seconds=20)
    # Two fit by now: one that comes just before the gate, and the one that waits.
    await shop.add(definition("now", group=THREE_IN_30_SECONDS))
    assert len(await shop.claim_grouped()) == 1
    assert (await GroupGate(shop.database).turn())[0] == 1
    assert ids(await shop.claim_grouped()) == [waiting]


async def test_after_a_long_rest_there_is_one_burst_and_no_more(shop: Shop, clock: Clock) -> None:
    await add(shop, 3, THREE_IN_30_SECONDS)
    await shop.claim_grouped()
    await clock.advance(days=1)
    await add(shop, 9, THREE_IN_30_SECONDS)
    assert len(await shop.claim_grouped()) == 3


async def test_limit_and_pace_hold_together(shop: Shop, clock: Clock) -> None:
    both = Group("site", max_running=2, rate=Rate.parse("3/30s"))
    await add(shop, 5, both)
    gate = GroupGate(shop.database)
    first = await shop.claim_grouped()
    assert len(first) == 2
    assert (await gate.turn()) == (0, SECOND), "full: there is nothing to hurry for"
    assert await end(shop, *first) == 1, "the third of the burst"
    assert len(await shop.claim_grouped()) == 1
    assert (await gate.turn())[0] == 0
    await clock.advance(seconds=10)
    assert (await gate.turn())[0] == 1
    assert len(await shop.claim_grouped()) == 1


# What people do to a group.


async def test_a_paused_group_admits_nothing_until_it_is_resumed(shop: Shop) -> None:
    await add(shop, 3)
    control, gate = Groups(shop.database), GroupGate(shop.database)
    [running] = await shop.claim_grouped(1)
    assert (await control.pause("site")).paused_at == START
    assert await shop.claim_grouped() == []
    assert len(await parked(shop)) == 2
    assert await end(shop, running) == 0, "what runs may finish, and nobody follows"
    assert await gate.turn() == (0, SECOND)
    assert (await control.resume("site")).paused_at is None
    assert len(await shop.claim_grouped()) == 2


async def test_a_paused_group_with_a_pace_is_never_ready(shop: Shop) -> None:
    await add(shop, 3, THREE_IN_30_SECONDS)
    await Groups(shop.database).pause("site")
    assert await shop.claim_grouped() == []
    assert await GroupGate(shop.database).turn() == (0, SECOND)


async def test_a_raised_limit_starts_the_jobs_that_fit_now(shop: Shop) -> None:
    await add(shop, 6)
    await shop.claim_grouped()
    changed = await Groups(shop.database).put(Group("site", max_running=4))
    assert changed.max_running == 4
    assert len(await shop.claim_grouped()) == 2


async def test_a_lowered_limit_stops_nobody_and_lets_in_nobody(shop: Shop) -> None:
    await add(shop, 6)
    claimed = await shop.claim_grouped()
    await Groups(shop.database).put(Group("site", max_running=1))
    assert await end(shop, claimed[0]) == 0
    assert await end(shop, claimed[1]) == 1
    assert len(await shop.claim_grouped()) == 1


async def test_a_pace_that_is_taken_away_holds_up_nobody_any_more(shop: Shop) -> None:
    await add(shop, 6, Group("site", rate=Rate.parse("1/h")))
    assert len(await shop.claim_grouped()) == 1
    await Groups(shop.database).put(Group("site"))
    assert len(await shop.claim_grouped()) == 5


async def test_a_quicker_pace_holds_at_once(shop: Shop, clock: Clock) -> None:
    await add(shop, 6, Group("site", rate=Rate.parse("1/h")))
    await shop.claim_grouped()
    await Groups(shop.database).put(Group("site", rate=Rate.parse("1/10s")))
    gate, let_in = GroupGate(shop.database), 0
    for _ in range(3):
        let_in += len(await shop.claim_grouped())
        await clock.advance(seconds=10)
        await gate.turn()
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
async def test_a_key_is_made_from_the_job(shop: Shop, key: str, made: str) -> None:
    payload = {"host": "example.org", "deep": {"er": 7}}
    job = await Jobs(shop.database, Registry([Echo()])).add(
        definition(
            "now",
            name="nightly",
            payload=payload,
            labels={"team": "search"},
            group=Group(key, max_running=3, job_limit=2),
        )
    )
    assert job.definition.group == Group(made, job_limit=2)
    assert (await Groups(shop.database).get(made)).max_running == 3


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
    shop: Shop, key: str, why: str
) -> None:
    payload = {"list": [1], "flag": True, "empty": "", "long": "x" * 201}
    control = Jobs(shop.database, Registry([Echo()]))
    with pytest.raises(InvalidInput, match=why) as refused:
        await control.add(definition("now", payload=payload, group=Group(key)))
    assert refused.value.errors[0].field == "group.key"
    assert await shop.value("select count(*) from evenbeat.job_group") == 0
    assert await shop.value("select count(*) from evenbeat.job") == 0


async def test_the_largest_limits_can_be_stored(shop: Shop) -> None:
    largest = Group("site", max_running=100_000, rate=Rate(100_000, SECOND), job_limit=32_767)
    job = await shop.add(definition("now", group=largest))
    assert job.definition.group == Group("site", job_limit=32_767)
    assert ids(await shop.claim_grouped()) == [job.id]
    with pytest.raises(InvalidInput, match="32767"):
        Group("site", job_limit=32_768)
