"""Jobs that wait for a node that nobody has started say so, however they come into being."""

from dataclasses import replace

from evenbeat.control.ops.nodes import Nodes
from evenbeat.store.database.pool import Database
from evenbeat.store.ops import nodes
from tests.control.controlled_jobs import due, open_controlled_jobs
from tests.store.given import LEASE

SAID = ("No live node labelled gpu serves the kind program: start one with EVENBEAT_PROGRAMS=on.",)


async def test_a_node_that_may_not_have_the_job_does_not_silence_the_warning(
    database: Database,
) -> None:
    controlled = await open_controlled_jobs(database)
    await nodes.open_lanes(database, ["program"], [])
    await nodes.join_node(database, "plain:1", kinds=["program"], labels=[], lease_duration=LEASE)
    anywhere = due(name="tidy", kind="program")
    labelled = replace(anywhere, name="train", runs_on=("gpu",))
    job = await controlled.jobs.add(anywhere)
    assert job.warnings == (await controlled.jobs.put(anywhere)).warnings == ()
    assert (await controlled.jobs.edit(job.uid, replace(labelled, name="tidy"))).warnings == SAID
    assert (await controlled.jobs.add(labelled)).warnings == SAID
    assert (await controlled.jobs.put(labelled)).warnings == SAID
    many = [replace(labelled, name=None), replace(anywhere, name=None)] * 2
    assert (await controlled.jobs.add_many(many)).warnings == SAID
    assert await Nodes(database).warnings([labelled, due()]) == SAID
    await nodes.join_node(
        database, "gpu:1", kinds=["program"], labels=["gpu"], lease_duration=LEASE
    )
    assert (await controlled.jobs.put(labelled)).warnings == ()
    assert (await controlled.jobs.add_many(many)).warnings == ()
