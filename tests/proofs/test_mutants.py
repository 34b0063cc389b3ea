"""Teeth: each broken protocol is caught by the same checks that find nothing in ours."""

import asyncio
import signal
from datetime import timedelta

import pytest

from tests.proofs.fleet import LEASE, Fleet
from tests.support.waiting import eventually

pytestmark = [pytest.mark.proof, pytest.mark.breaks_rules("that is what mutants do")]


def mutated(name: str) -> pytest.MarkDecorator:
    """Once with the mutant, and once without: the same scenario must then find nothing."""
    cases = [pytest.param({"MUTANT": name}, id=name), pytest.param({}, id="healthy")]
    return pytest.mark.parametrize("mutant", cases)


async def judge(fleet: Fleet, mutant: dict[str, str], *signs: str) -> None:
    """Expect nothing of a healthy fleet, and of a mutant one of these signs."""
    found = await fleet.breaches()
    print(f"\n{mutant.get('MUTANT', 'healthy')}: {len(found)} found", *found[:3], sep="\n  ")
    if mutant:
        assert any(sign in breach for breach in found for sign in signs), found
    else:
        assert found == []


@mutated("no_token_guard")
async def test_a_frozen_node_that_ends_what_is_not_its_own(
    fleet: Fleet, mutant: dict[str, str]
) -> None:
    processes = await fleet.start(2, **mutant)
    await fleet.add(5, seconds=4)
    begun = await fleet.started_runs(5)
    victim = next(process for process in processes if process.pid == begun[0]["pid"])
    await fleet.freeze(victim)
    held = sum(line["pid"] == victim.pid for line in begun)
    await fleet.started_runs(5 + held)
    victim.signal(signal.SIGCONT)
    await asyncio.sleep(6)
    await judge(fleet, mutant, "ended after the run", "overlap")


@mutated("reap_the_living")
async def test_a_node_whose_runs_are_taken_while_it_may_still_claim(
    fleet: Fleet, mutant: dict[str, str]
) -> None:
    first, _ = await fleet.start(2, **mutant)
    await fleet.add(20, seconds=0.3, every=timedelta(seconds=1))
    await fleet.started_runs(20)
    await fleet.freeze(first)
    await asyncio.sleep(LEASE.total_seconds() + 1)
    first.signal(signal.SIGCONT)
    await asyncio.sleep(2)
    await judge(fleet, mutant, "was never declared dead", "a swept node is dead")


@mutated("count_groups_while_claiming")
async def test_a_group_counted_without_being_held(fleet: Fleet, mutant: dict[str, str]) -> None:
    """Two nodes that serve different kinds, and whose jobs share their groups."""
    for kind in ("effect", "other"):
        await fleet.start(1, KIND=kind, **mutant)
    soon = timedelta(seconds=-1)
    for attempt in range(5 if mutant else 2):
        for number in range(20):
            group = f"{attempt}.{number}"
            for kind in ("effect", "other"):
                await fleet.add(4, kind=kind, seconds=0.2, since=soon, group=group, limit=2)
        await asyncio.sleep(1)
        await fleet.drained()
        if await fleet.breaches():
            break
    await judge(fleet, mutant, "no group ever exceeds its limit")


@mutated("own_clock")
async def test_a_node_that_goes_by_its_own_clock(fleet: Fleet, mutant: dict[str, str]) -> None:
    await fleet.start(1, **mutant)
    await fleet.add(5, seconds=0.01, every=timedelta(seconds=1))
    await fleet.started_runs(5)
    await asyncio.sleep(3)
    await fleet.stop()
    await judge(fleet, mutant, "nothing is missed before its time")


@mutated("skip_without_a_row")
async def test_beats_that_are_passed_over_in_silence(fleet: Fleet, mutant: dict[str, str]) -> None:
    await fleet.start(1, **mutant)
    await fleet.add(5, seconds=2.5, every=timedelta(seconds=1))
    await fleet.started_runs(10)
    await fleet.stop()
    await judge(fleet, mutant, "no beat is lost")


DIE = """
with dead as (
    insert into evenbeat.node (name, kinds, labels, joined_at, alive_until)
    select 'gone:0', '{effect}', '{}', now(), now() - interval '1 second'
    from generate_series(1, 5)
    returning id
),
held as (
    select id, (select min(id) from dead) + id % 5 as node_id
    from evenbeat.pulse
    where state = 'p' and token is null
)
update evenbeat.pulse
set token = 1, node_id = held.node_id, run_id = nextval('evenbeat.run_id'),
    run_number = run_number + 1, started_at = statement_timestamp(), cause = 's', attempt = 1,
    beat_at = next_beat_at
from held
where pulse.id = held.id
"""


@mutated("any_lock_order")
async def test_rows_that_are_locked_in_any_order(fleet: Fleet, mutant: dict[str, str]) -> None:
    """Several reapers take over the runs of the same dead nodes: who is second waits in line."""
    before = deadlocks = await fleet.deadlocks()
    await fleet.start(4, EVENBEAT_STALE_CHECK_INTERVAL="100ms", **mutant)
    for _ in range(8 if mutant else 3):
        await fleet.add(1_500, spread=timedelta(hours=1), since=timedelta(hours=-1))
        await fleet.fetch(DIE)
        await fleet.fetch("update evenbeat.pulse set next_beat_at = now() where state = 'p'")
        await eventually(lambda: is_swept(fleet), "the sweep", patience=60)
        # The server tells its statistics once a second.
        await asyncio.sleep(1.5)
        deadlocks = await fleet.deadlocks() - before
        if deadlocks:
            break
    await fleet.drained()
    print(f"\n{mutant.get('MUTANT', 'healthy')}: {deadlocks} deadlocks")
    assert (deadlocks > 0) is bool(mutant)


async def is_swept(fleet: Fleet) -> bool:
    return not await fleet.value(
        "select exists(select from evenbeat.node where name = 'gone:0' and swept_at is null)"
    )
