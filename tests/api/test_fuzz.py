"""Whatever the description of the API allows, and what it does not: answered as described."""

import asyncio
import warnings
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.api.fuzzing import fuzz
from tests.support import databases


def test_every_answer_to_a_made_up_request_is_as_described(
    database_url: str, tmp_path: Path
) -> None:
    asyncio.run(databases.empty(database_url))
    found = fuzz(database_url, tmp_path, "--max-examples", "2", "--seed", "1")
    assert not found, found


def test_the_description_is_openapi_3_1(api: httpx.Client) -> None:
    with warnings.catch_warnings():
        # Of its own dependencies.
        warnings.simplefilter("ignore")
        from schemathesis import openapi
    document = api.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    openapi.from_dict(document).validate()
    broken = document | {"paths": {"/x": {"get": {"responses": 7}}}}
    with pytest.raises(Exception, match="7"):
        openapi.from_dict(broken).validate()
