"""The clocks of the nodes are an hour off, each to another side: nobody notices."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.proofs.fleet import Fleet
from tests.support.programs import program

pytestmark = pytest.mark.proof
LATENESS = """
select
    min(extract(epoch from started_at - beat_at))::float8 as soonest,
    max(extract(epoch from started_at - beat_at))::float8 as latest,
    count(*) as runs,
    count(distinct node_id) as nodes
from evenbeat.run
where state = 'c'
"""
# The machine may be busy with something else.
LATEST = 2.0


def hour_off(sign: str) -> dict[str, str]:
    """The wall clock alone: durations are measured by another one, which no setting moves."""
    program("faketime", "faketime")
    [library] = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{sign}1h",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


async def test_nodes_whose_clocks_are_an_hour_off_keep_every_beat(fleet: Fleet) -> None:
    [fast] = await fleet.start(**hour_off("+"))
    [slow] = await fleet.start(**hour_off("-"))
    await fleet.start()
    await fleet.add(300, seconds=0.2, spread=timedelta(seconds=10))
    await fleet.add(100, seconds=0.2, spread=timedelta(seconds=10), group="shared", limit=10)
    await fleet.add(30, seconds=0.05, every=timedelta(seconds=1))
    await fleet.drained()
    await fleet.started_runs(700)
    await fleet.stop()
    hours = {line[11:13] for process in (fast, slow) for line in process.output.splitlines()}
    assert len(hours) >= 2, "the clocks were not off"
    [figures] = await fleet.fetch(LATENESS)
    print(
        f"\nclocks an hour off: {figures['runs']} runs on {figures['nodes']} nodes, between"
        f" {figures['soonest']:.3f} s and {figures['latest']:.3f} s after their beat"
    )
    assert await fleet.breaches() == []
    assert figures["nodes"] == 3
    assert 0 <= figures["soonest"] <= figures["latest"] <= LATEST
    assert not any("Node is dead" in process.output for process in fleet.started)
