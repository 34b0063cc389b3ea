"""A client of the job registry: its operations, by the routes that do them here."""

from typing import Any

from tests.contracts.interval_jobs import client
from tests.support.waiting import eventually

JOBS, GROUPS, LETTERS = "/api/v1/jobs", "/api/v1/groups", "/api/v1/dead-letters"
STATS = "/api/v1/stats"

Json = dict[str, Any]


class Client(client.Client):
    """Registers jobs, runs them, and waits for what becomes of them."""

    async def register(self, name: str, schedule: Any, **job: Any) -> Json:
        """As the registry has it: three attempts, and waits of 2, 4, 8 … seconds."""
        written = {"kind": "work", "max_attempts": 3, "backoff": {"base": 2}, "payload": {}} | job
        return await self.create(name=name, schedule=schedule, **written)

    async def execute(self, job: Json, number: int = 1) -> Json:
        """Run it now, and wait for the end of the run of this number."""
        answer = await self.act(job["id"], "run")
        assert answer.status_code == 202, answer.text
        return await self.ended(job["id"], number)

    async def fetch(self, place: str, **query: Any) -> Json:
        answer = await self.http.get(place, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def send(self, place: str, body: Json | None = None, status: int = 200) -> Json:
        answer = await self.http.post(place, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def letters(self, **query: Any) -> list[Json]:
        return (await self.fetch(LETTERS, **query))["dead_letters"]

    async def buried(self, name: str) -> Json:
        """A job that is dead on its first attempt, and its letter."""
        job = await self.register(name, "every 1h", max_attempts=1, payload={"fails": 99})
        assert (await self.execute(job))["status"] == "failed"
        [letter] = await self.letters(job_name=name)
        return letter

    async def in_group(self, key: str, *, running: int, waiting: int) -> Json:
        async def look() -> Json | None:
            seen = await self.fetch(f"{GROUPS}/{key}")
            counts = seen["group"]["running"], seen["group"]["waiting"]
            return seen if counts == (running, waiting) else None

        return await eventually(look, f"{running} run and {waiting} wait in {key}")
