"""New ids of jobs."""

from evenbeat.store.jobs.new_uids import new_job_uid, new_job_uids
from tests.conftest import START


def test_two_jobs_of_one_instant_have_two_uids() -> None:
    assert len({new_job_uid(START) for _ in range(1000)}) == 1000


def test_the_uids_of_many_jobs_come_in_their_order() -> None:
    uids = new_job_uids(START, 1000)
    assert uids == sorted(set(uids))
    assert len(uids) == 1000
