"""Real processes of Evenbeat, as a user would start them."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx2 as httpx

from tests.support.forked_processes import process_forker
from tests.support.waiting import eventually

EVENBEAT = Path(sys.executable).with_name("evenbeat")
ADDRESS = re.compile(r"Evenbeat is ready\b.*url=(?P<url>\S+)")


class Process:
    """One `evenbeat …` process that runs until it is stopped; its output goes to a file."""

    def __init__(
        self,
        *arguments: str,
        environ: Mapping[str, str],
        cwd: Path,
        program: Sequence[str | Path] = (),
    ) -> None:
        self.log = cwd / f"{arguments[0]}-{os.urandom(4).hex()}.log"
        with self.log.open("wb") as output, Path(os.devnull).open("rb") as nothing:
            if program:
                self._process = subprocess.Popen(
                    [*program, *arguments],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    stdin=nothing,
                    cwd=cwd,
                    env=dict(environ),
                )
            else:
                streams = (nothing.fileno(), output.fileno(), output.fileno())
                self._process = process_forker().spawn(
                    arguments, environ=environ, cwd=cwd, streams=streams
                )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    async def says(self, text: str) -> str:
        """Wait until the output contains this; fails with the output if the process ends before."""

        def is_said() -> bool:
            if text in self.output:
                return True
            if self.exit_code is not None and text not in self.output:
                raise AssertionError(f"ended with {self.exit_code} before {text!r}:\n{self.output}")
            return False

        await eventually(is_said, f"{text!r} in:\n{self.output}")
        return self.output

    async def ready(self) -> str:
        """Wait until it is ready; returns the address of its API."""
        await self.says("Evenbeat is ready")
        found = ADDRESS.search(self.output)
        return found["url"] if found else ""

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def ended(self) -> int:
        await eventually(lambda: self.exit_code is not None, f"the end of:\n{self.output}")
        assert self.exit_code is not None
        return self.exit_code

    async def stop(self) -> int:
        if self.exit_code is None:
            self.signal(signal.SIGTERM)
        return await self.ended()

    def kill(self) -> None:
        """kill -9, as a test's finalizer or as the fault under test."""
        if self.exit_code is None:
            self.signal(signal.SIGKILL)
        self._process.wait()


class Api:
    """A JSON client of one API, with a token."""

    def __init__(self, url: str, token: str | None = None) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        # No TLS is used, and reading the certificates takes longer than most of these tests.
        self.http = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=30, trust_env=False, verify=False
        )

    async def get(self, path: str, **query: object) -> httpx.Response:
        return await self.http.get(path, params=query)

    async def post(self, path: str, body: object) -> httpx.Response:
        return await self.http.post(path, json=body)

    async def create(self, **job: object) -> dict[str, object]:
        answer = await self.post("/api/v1/jobs", job)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def executions(self, job_id: object) -> list[dict[str, object]]:
        answer = await self.get(f"/api/v1/jobs/{job_id}/executions")
        assert answer.status_code == 200, answer.text
        return answer.json()["executions"]

    async def completed(self, job_id: object) -> dict[str, object]:
        """Wait until a run of the job has completed; returns that run."""

        async def find() -> dict[str, object] | None:
            runs = await self.executions(job_id)
            return next((run for run in runs if run["status"] == "completed"), None)

        return await eventually(find, f"a completed run of {job_id}")
