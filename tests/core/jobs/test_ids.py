"""The ids that clients see."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.errors import NotFound
from evenbeat.core.jobs.ids import RANDOM_BYTES, RUN_BITS, build_job_uids, run_id, run_uid

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


random_bytes = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)


@given(random_bytes)
def test_a_job_uid_is_a_version_7_uuid_that_tells_the_millisecond_of_its_birth(
    chance: bytes,
) -> None:
    [uid] = build_job_uids(NOW, chance)
    assert (uid.version, uid.variant) == (7, "specified in RFC 4122")
    assert uid.int >> 80 == int(NOW.timestamp() * 1000)


@given(random_bytes, random_bytes)
def test_job_uids_sort_by_time_of_birth(chance: bytes, other: bytes) -> None:
    [earlier] = build_job_uids(NOW, chance)
    [later] = build_job_uids(NOW + timedelta(milliseconds=1), other)
    assert earlier < later


def test_every_ten_random_bytes_make_another_uid() -> None:
    uids = build_job_uids(NOW, b"".join(each.to_bytes(RANDOM_BYTES) for each in range(1000)))
    assert len(set(uids)) == 1000
    assert uids == sorted(uids)


@given(st.integers(0, 2**RUN_BITS - 1))
def test_a_run_is_found_again_by_its_uid(number: int) -> None:
    assert run_id(run_uid(number)) == number
    assert run_uid(number).version == 8


@pytest.mark.parametrize("stranger", [uuid4(), UUID(int=0), UUID(int=2**128 - 1), UUID(int=7)])
def test_any_other_uuid_is_no_run(stranger: UUID) -> None:
    with pytest.raises(NotFound, match=str(stranger)):
        run_id(stranger)
