"""A job that gets a phase avoids all jobs that stay, also those that are being counted again."""

from collections import Counter

from evenbeat.control.jobs.jobs import Jobs
from evenbeat.core.runs.registry import Registry
from evenbeat.store.balance import unplaced_jobs
from tests.placement.placed_jobs import PlacedJobs, beat_of, timed


async def test_a_new_job_avoids_a_job_that_is_counted_again(placed: PlacedJobs) -> None:
    made = [await placed.make("every 1h") for _ in range(3)]
    # As the janitor does for mismatches, and SQL functions that add jobs.
    await unplaced_jobs.mark_unplaced(placed.database, [job.id for job in made], anew=False)
    made.append(await Jobs(placed.database, Registry()).add(timed("every 1h")))
    assert await placed.placement.place_waiting() == 4
    quarters = Counter([beat_of(await placed.find(job)).minute // 15 for job in made])
    assert quarters == Counter(range(4))
