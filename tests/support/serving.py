"""One server for all tests of a module that only send requests and check the answers."""

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import httpx2 as httpx

from evenbeat.config import load
from evenbeat.control.ops.token_signing import make_token
from evenbeat.core.ops.access import Role
from tests.support.processes import Process

SECRET = "a secret that only these tests know, long enough"


def server_environ(database_url: str, data_dir: Path) -> dict[str, str]:
    """The environment of a server on the tests' database, with the real clock."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "EVENBEAT_DATABASE_URL": database_url,
        "EVENBEAT_JWT_SECRET": SECRET,
        "EVENBEAT_DATA_DIR": str(data_dir),
        "EVENBEAT_PORT": "0",
    }


@contextlib.contextmanager
def serving(command: str, environ: Mapping[str, str], cwd: Path) -> Iterator[str]:
    """The address of a process that serves until the block ends."""
    process = Process(command, environ=environ, cwd=cwd)
    try:
        yield asyncio.run(process.ready())
    finally:
        process.kill()


def token_for(role: Role, lifetime: timedelta = timedelta(hours=1)) -> str:
    settings = load(environ={}, jwt_secret=SECRET)
    return make_token(settings, name="tests", role=role, lifetime=lifetime)


def client_of(url: str, token: str | None) -> httpx.Client:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    # No TLS is used, and reading the certificates takes longer than most of these tests.
    return httpx.Client(base_url=url, headers=headers, timeout=30, trust_env=False, verify=False)


def assert_problem(answer: httpx.Response, status: int) -> dict[str, object]:
    """Assert that an answer is a problem of this status, in the form that all clients expect."""
    assert answer.status_code == status, answer.text[:2000]
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["title"]
    assert isinstance(body["error"], str)
    assert body["error"] == body["detail"] != ""
    assert body["instance"] == answer.request.url.path
    return body


def assert_refused(answer: httpx.Response, field: str, status: int = 422) -> str:
    """Assert that an answer refuses this field, or a part of it; its message."""
    body = assert_problem(answer, status)
    errors: list[dict[str, str]] = body["errors"]  # type: ignore[assignment]
    named = [each for each in errors if is_part(each["field"], field)]
    assert named, f"{field} is not named in {errors}"
    assert named[0]["message"]
    return named[0]["message"]


def is_part(place: str, field: str) -> bool:
    return place == field or place.startswith((f"{field}.", f"{field}["))
