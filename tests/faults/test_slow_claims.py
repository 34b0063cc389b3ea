"""Claims are slow, as while somebody holds an old snapshot: old turns come late, but they come."""

import pytest

from evenbeat.core.jobs.model import RunState
from evenbeat.core.runs.outcome import Done
from evenbeat.engine.runs import claimer
from tests.engine.node_runner import Does, Workshop

pytestmark = pytest.mark.usefixtures("rules")


async def test_jobs_with_old_turns_are_found_by_looking_back(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every claim is called slow, and the next look at all turns is half a second away.
    monkeypatch.setattr(claimer, "SLOW", -1.0)
    monkeypatch.setattr(claimer, "REPEAT_SLOW_AFTER", 1e9)
    monkeypatch.setattr(claimer, "LONGEST_REPEAT_PAUSE", 0.5)
    async with workshop.node(Does(Done())):
        for _ in range(5):
            assert (await workshop.closed(await workshop.add())).state is RunState.COMPLETED
        urgent = [await workshop.add(priority=100) for _ in range(5)]
        plain = [await workshop.add() for _ in range(5)]
        for job in (*plain, *urgent):
            assert (await workshop.closed(job)).state is RunState.COMPLETED
