"""The files that a request runs through, held equal to the list in ARCHITECTURE.md."""

import opcode
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import httpx2 as httpx
import pytest

import evenbeat
from evenbeat import server
from evenbeat.api.v1.jobs.jobs import create_job
from evenbeat.app import Evenbeat
from evenbeat.config import load

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(evenbeat.__file__).parent
# Logs, metrics and settings are on every way, and say nothing about one.
NOT_COUNTED = ("observe/", "config")
STORED = "insert into evenbeat.job ("


class RunFiles:
    """Records our files whose functions run from the start of `first` to the commit of a job, and
    from there to the answer.

    `sys.setprofile` reports every call of a Python function in this thread. A coroutine counts
    again whenever it is resumed, which changes nothing: only the set of files matters.
    """

    def __init__(self, first: CodeType) -> None:
        self._first = first
        # The callers of `first`: they ran before it, and are only resumed while it runs.
        self._callers: list[FrameType] | None = None
        self.is_committed = False
        self.before_commit: set[str] = set()
        self.until_answer: set[str] = set()

    def __enter__(self) -> Self:
        sys.setprofile(self._observe)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        # A frame that is kept keeps alive whatever its function had in hand.
        self._callers = None

    def _observe(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and is_job_committed(frame):
            self.is_committed = True
        if event != "call":
            return
        if frame.f_code is self._first and self._callers is None:
            self._callers = list(callers_of(frame))
        if self._callers is None or frame in self._callers:
            return
        file = our_file(frame.f_code)
        if file is not None:
            self.until_answer.add(file)
            if not self.is_committed:
                self.before_commit.add(file)


def callers_of(frame: FrameType) -> Iterator[FrameType]:
    while frame.f_back is not None:
        frame = frame.f_back
        yield frame


def our_file(code: CodeType) -> str | None:
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE) or path.name == "__init__.py":
        return None
    file = path.relative_to(PACKAGE).as_posix()
    return None if file.startswith(NOT_COUNTED) else file


def is_job_committed(frame: FrameType) -> bool:
    """Whether the driver has just returned from the statement that stores a job.

    A statement outside of a transaction is committed when its answer arrives.
    """
    code = frame.f_code
    if code.co_qualname != "Connection._execute" or STORED not in frame.f_locals["query"]:
        return False
    # A coroutine that is suspended is reported as a return as well.
    is_finished = opcode.opname[code.co_code[frame.f_lasti]].startswith("RETURN")
    return is_finished and not frame.f_locals["self"].is_in_transaction()


def documented_files(way: str) -> set[str]:
    """The files that ARCHITECTURE.md lists between the markers of this way."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    found = re.search(rf"<!-- way: {way} -->(.*?)<!-- end -->", text, re.DOTALL)
    assert found is not None, f"ARCHITECTURE.md has no list of the way: {way}"
    return set(re.findall(r"`([\w/]+\.py)`", found[1]))


@pytest.fixture
async def api(database: Any, environ: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    settings = {"EVENBEAT_AUTH": "off", "EVENBEAT_BALANCING": "on"}
    async with Evenbeat(load(environ=environ | settings)) as app:
        transport = httpx.ASGITransport(app=server.build_site(app))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client


async def test_a_job_is_added_through_the_files_that_the_architecture_lists(
    api: httpx.AsyncClient,
) -> None:
    # The first job of its kind opens the lane; the way that is listed is that of all others.
    first = await api.post("/api/v1/jobs", json={"kind": "echo", "schedule": "every 20m"})
    assert first.status_code == 201, first.text
    with RunFiles(create_job.__code__) as run:
        added = await api.post("/api/v1/jobs", json={"kind": "echo", "schedule": "every 30m"})
    assert added.status_code == 201, added.text
    assert run.is_committed
    assert run.before_commit == documented_files("adding a job")
