"""The ids that clients see."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.errors import NotFound
from evenbeat.core.jobs.ids import RUN_BITS, run_id, run_uid


@given(st.integers(0, 2**RUN_BITS - 1))
def test_a_run_is_found_again_by_its_uid(number: int) -> None:
    assert run_id(run_uid(number)) == number
    assert run_uid(number).version == 8


@pytest.mark.parametrize("stranger", [uuid4(), UUID(int=0), UUID(int=2**128 - 1), UUID(int=7)])
def test_any_other_uuid_is_no_run(stranger: UUID) -> None:
    with pytest.raises(NotFound, match=str(stranger)):
        run_id(stranger)
