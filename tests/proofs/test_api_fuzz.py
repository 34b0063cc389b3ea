"""The API under made-up requests for as long as it takes, another seed each time."""

import asyncio
import secrets
from pathlib import Path

import pytest

from tests.api.fuzzing import fuzz
from tests.support import databases

pytestmark = pytest.mark.proof


def test_every_answer_to_thousands_of_made_up_requests_is_as_described(
    database_url: str, tmp_path: Path
) -> None:
    asyncio.run(databases.empty(database_url))
    seed = secrets.randbelow(2**32)
    found = fuzz(database_url, tmp_path, "--max-examples", "500", "--seed", str(seed))
    if found:
        pytest.fail(found, pytrace=False)
