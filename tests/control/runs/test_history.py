"""The runs of a job, as somebody wants to see them."""

from datetime import timedelta

import pytest

from evenbeat.control.runs.history import History
from evenbeat.core.runs.outcome import HandedBack, Outcome, Snoozed
from tests.control.controlled_jobs import ControlledJobs, due
from tests.support.databases import Clock


@pytest.mark.parametrize("outcome", [HandedBack(), Snoozed(timedelta(minutes=1))])
async def test_runs_that_begin_again_may_be_left_out(
    controlled: ControlledJobs, clock: Clock, outcome: Outcome
) -> None:
    job = await controlled.add(due("now"))
    await controlled.finish(job, outcome)
    await clock.advance(minutes=1)
    await controlled.fail(job)
    last = (await controlled.history(job))[-1]
    page = await History(controlled.database).of_job(job.uid, with_returned=False)
    assert (page.runs, page.total) == ([last], 1)
    assert (await History(controlled.database).of_job(job.uid)).total == 2
