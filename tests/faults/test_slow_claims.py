"""Claims are slow, as while somebody holds an old snapshot: old turns come late, but they come."""

import pytest

from evenbeat.core.jobs.model import RunState
from evenbeat.core.runs.outcome import Done
from evenbeat.engine.runs import claimer
from tests.engine.node_runner import Does, NodeRunner

pytestmark = pytest.mark.usefixtures("rules")


async def test_jobs_with_old_turns_are_found_by_looking_back(
    node_runner: NodeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every claim is called slow, and the next look at all turns is half a second away.
    monkeypatch.setattr(claimer, "SLOW", -1.0)
    monkeypatch.setattr(claimer, "LOOK_BACK_AFTER", 1e9)
    monkeypatch.setattr(claimer, "LONGEST_LOOK_BACK", 0.5)
    async with node_runner.node(Does(Done())):
        for _ in range(5):
            assert (await node_runner.closed(await node_runner.add())).state is RunState.COMPLETED
        urgent = [await node_runner.add(priority=100) for _ in range(5)]
        plain = [await node_runner.add() for _ in range(5)]
        for job in (*plain, *urgent):
            assert (await node_runner.closed(job)).state is RunState.COMPLETED
