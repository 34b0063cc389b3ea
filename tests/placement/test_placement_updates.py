"""Whoever chooses a place sees all those that stay, even while they are being counted anew."""

from collections import Counter

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.runs.registry import Registry
from evenbeat.store.balance import load_map
from tests.placement.placed_jobs import PlacedJobs, beat_of, timed


async def test_a_job_that_is_counted_anew_keeps_its_place_from_one_that_is_new(
    placed_jobs: PlacedJobs,
) -> None:
    made = [await placed_jobs.make("every 1h") for _ in range(3)]
    # As the sweep does that reconciles the map, and whoever adds jobs from SQL.
    await load_map.mark_unplaced(placed_jobs.database, [job.id for job in made], anew=False)
    made.append(await Jobs(placed_jobs.database, Registry()).add(timed("every 1h")))
    assert await placed_jobs.placement.place_waiting() == 4
    quarters = Counter([beat_of(await placed_jobs.find(job)).minute // 15 for job in made])
    assert quarters == Counter(range(4))
