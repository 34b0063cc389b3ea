"""pgqueuer doing the same: a batch of jobs that do nothing, drained by one process.

python pgqueuer_peer.py URL fill COUNT
python pgqueuer_peer.py URL work BATCH
python pgqueuer_peer.py URL pickup COUNT
"""

import asyncio
import sys
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries


async def fill(url: str, count: int) -> None:
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await queries.install()
    for _ in range(0, count, 1000):
        await queries.enqueue(["noop"] * 1000, [None] * 1000, [0] * 1000)


async def work(url: str, batch: int) -> None:
    """Drain, and print how many jobs were run and when the first and the last were."""
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))
    watcher = await asyncpg.connect(url)
    seen: list[float] = []

    @queuer.entrypoint("noop")
    async def noop(job: object) -> None:
        seen.append(time.time())

    async def stop_when_empty() -> None:
        while await watcher.fetchval("select exists (select from pgqueuer)"):
            await asyncio.sleep(0.05)
        print(len(seen), seen[0] if seen else 0, time.time(), flush=True)
        queuer.shutdown.set()

    await asyncio.gather(
        queuer.run(batch_size=batch, dequeue_timeout=timedelta(seconds=1)),
        stop_when_empty(),
    )


async def pickup(url: str, count: int) -> None:
    """How long an idle worker takes to start a job, in milliseconds, one line each."""
    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    await queries.install()
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))
    started = asyncio.Event()
    late: list[float] = []

    @queuer.entrypoint("noop")
    async def noop(job: object) -> None:
        late.append((time.time() - float(job.payload)) * 1000)  # type: ignore[attr-defined]
        started.set()

    async def feed() -> None:
        await asyncio.sleep(1)
        for _ in range(count):
            started.clear()
            await queries.enqueue("noop", repr(time.time()).encode())
            await started.wait()
            await asyncio.sleep(0.03)
        print(*late, sep="\n", flush=True)
        queuer.shutdown.set()

    await asyncio.gather(queuer.run(dequeue_timeout=timedelta(seconds=1)), feed())


if __name__ == "__main__":
    url, verb, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    chosen = {"fill": fill, "work": work, "pickup": pickup}[verb]
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(chosen(url, number))
