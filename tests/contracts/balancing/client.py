"""A client of the self-balancing scheduler, as its document describes them."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from tests.contracts.interval_jobs.client import JOBS, Json, instant, token
from tests.contracts.interval_jobs.client import Client as IntervalClient

__all__ = ["JOBS", "Client", "Json", "instant", "slot_of", "slots_of", "token"]

SCHEDULER = "/api/v1/scheduler"
SLOT = timedelta(minutes=15)


def slot_of(text: Any) -> int:
    return int(instant(text).timestamp()) // int(SLOT.total_seconds())


def slots_of(jobs: list[Json]) -> Counter[int]:
    """How many of these jobs run next in each slot."""
    return Counter(slot_of(job["next_run_at"]) for job in jobs)


class Client(IntervalClient):
    """Speaks of the distribution and of rebalances, besides jobs."""

    async def works(self, minutes: int, **job: Any) -> Json:
        """A job that somebody can run, every so many minutes."""
        return await self.create(kind="works", payload={}, interval_minutes=minutes, **job)

    async def many(self, count: int, minutes: int, **job: Any) -> list[Json]:
        """So many of them, one after the other."""
        return [await self.works(minutes, **job) for _ in range(count)]

    async def distribution(self, **query: Any) -> Json:
        answer = await self.get(f"{SCHEDULER}/distribution", **query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def preview(self, **wanted: Any) -> Json:
        answer = await self.http.post(f"{SCHEDULER}/rebalance/preview", json=wanted or None)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def rebalance(self, **wanted: Any) -> Json:
        answer = await self.http.post(f"{SCHEDULER}/rebalance", json=wanted or None)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def at_once(self, count: int, minutes: int, **job: Any) -> list[Json]:
        """So many of them in one request."""
        wanted = {"kind": "works", "payload": {}, "interval_minutes": minutes} | job
        answer = await self.post(f"{JOBS}/batch", {"jobs": [wanted] * count})
        assert answer.status_code == 201, answer.text
        known = await self.all_jobs()
        return [known[job_id] for job_id in answer.json()["ids"]]

    async def all_jobs(self) -> dict[str, Json]:
        answer = await self.get(JOBS, limit=250)
        assert answer.status_code == 200, answer.text
        return {job["id"]: job for job in answer.json()["jobs"]}

    async def next_runs(self, jobs: list[Json]) -> dict[str, datetime]:
        known = await self.all_jobs()
        return {job["id"]: instant(known[job["id"]]["next_run_at"]) for job in jobs}

    async def remove_all(self) -> None:
        """What tests before have left behind is load to be placed around."""
        wanted = {"action": "delete", "filter": {"all": True}}
        answer = await self.post(f"{JOBS}/actions", wanted)
        assert answer.status_code == 200, answer.text

    async def text_of_metrics(self) -> dict[str, float]:
        """Every sample of /metrics by its name and labels."""
        answer = await self.get("/metrics")
        assert answer.status_code == 200, answer.text
        samples = (line.rpartition(" ") for line in answer.text.splitlines() if line[:1] != "#")
        return {name: float(value) for name, _, value in samples}
