"""A node dies of kill -9 at each named step: nothing is lost, nothing is done twice."""

import signal

import pytest

from evenbeat.observe.failpoint import STEPS
from tests.proofs.fleet import Fleet

# How often the step is passed before it kills: so that there is work on either side of it.
TIMES = {"marked_dead": 1, "before_leave": 1, "before_unpark": 2, "renewed": 3, "claimed": 2}
QUICK = ("claimed",)
# Nodes that run one-off jobs never come there; tests of balancing do.
ELSEWHERE = ("before_placement", "before_placement_commit", "before_rebalance_commit", "rebalanced")
CASES = [
    pytest.param(step, marks=() if step in QUICK else pytest.mark.proof, id=step)
    for step in STEPS
    if step not in ELSEWHERE
]


@pytest.mark.parametrize("step", CASES)
async def test_a_node_that_dies_at_a_step_leaves_nothing_undone(fleet: Fleet, step: str) -> None:
    await fleet.add(40, seconds=0.3)
    await fleet.add(20, seconds=0.1, group="few", limit=3)
    if step == "marked_dead":
        # Somebody has to have died before.
        [other] = await fleet.start(EVENBEAT_CONCURRENCY="5")
        await fleet.started_runs(5)
        await fleet.kill(other)
    failpoint = f"{step}:kill:{TIMES.get(step, 5)}"
    [dying] = await fleet.start(EVENBEAT_FAILPOINT=failpoint, EVENBEAT_CONCURRENCY="5")
    if step == "before_leave":
        await fleet.started_runs(1)
        dying.signal(signal.SIGTERM)
    assert await dying.ended() == -signal.SIGKILL, dying.output[-3000:]
    fleet.gone[dying.pid] = await fleet.now()
    await fleet.start(EVENBEAT_CONCURRENCY="50")
    await fleet.drained()
    await fleet.stop()
    completed = "select count(*) from evenbeat.run where state = 'c'"
    assert await fleet.value(completed) == 60
    assert await fleet.breaches() == []
    await fleet.tell(f"killed at {step}")
