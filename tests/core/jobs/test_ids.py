"""The ids that clients see."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.errors import NotFound
from evenbeat.core.jobs.ids import RUN_BITS, new_job_uid, run_id, run_uid

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_job_uid_is_a_version_7_uuid_that_tells_the_millisecond_of_its_birth() -> None:
    uid = new_job_uid(NOW)
    assert (uid.version, uid.variant) == (7, "specified in RFC 4122")
    assert uid.int >> 80 == int(NOW.timestamp() * 1000)


def test_job_uids_sort_by_time_of_birth() -> None:
    uids = [new_job_uid(NOW + timedelta(milliseconds=step)) for step in range(50)]
    assert uids == sorted(uids)


def test_two_jobs_of_one_instant_have_two_uids() -> None:
    assert len({new_job_uid(NOW) for _ in range(1000)}) == 1000


@given(st.integers(0, 2**RUN_BITS - 1))
def test_a_run_is_found_again_by_its_uid(number: int) -> None:
    assert run_id(run_uid(number)) == number
    assert run_uid(number).version == 8


@pytest.mark.parametrize("stranger", [uuid4(), UUID(int=0), UUID(int=2**128 - 1), UUID(int=7)])
def test_any_other_uuid_is_no_run(stranger: UUID) -> None:
    with pytest.raises(NotFound, match=str(stranger)):
        run_id(stranger)
