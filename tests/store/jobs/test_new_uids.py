"""New ids of jobs."""

from datetime import timedelta

from evenbeat.store.jobs.job_inserts import new_job_uid, new_job_uids
from tests.conftest import START


def test_two_jobs_of_one_instant_have_two_uids() -> None:
    assert len({new_job_uid(START) for _ in range(1000)}) == 1000


def test_the_uids_of_many_jobs_come_in_their_order() -> None:
    uids = new_job_uids(START, 1000)
    assert uids == sorted(set(uids))
    assert len(uids) == 1000


def test_a_job_uid_is_a_version_7_uuid_with_the_millisecond_at_which_it_was_made() -> None:
    for uid in new_job_uids(START, 1000):
        assert (uid.version, uid.variant) == (7, "specified in RFC 4122")
        assert uid.int >> 80 == int(START.timestamp() * 1000)


def test_job_uids_sort_by_the_time_at_which_they_were_made() -> None:
    assert max(new_job_uids(START, 100)) < min(new_job_uids(START + timedelta(milliseconds=1), 100))
