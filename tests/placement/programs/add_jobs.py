"""Adds so many jobs, one after the other or ten at a time, and ends."""

import asyncio
import sys

from evenbeat.app import Evenbeat
from evenbeat.core.jobs.model import Definition
from evenbeat.core.time.timetable import Timetable

INTERVALS = ("30m", "1h", "2h")


async def main(count: int) -> None:
    async with Evenbeat() as eb:
        made = [
            Definition("echo", Timetable.from_object({"schedule": f"every {interval}"}))
            for interval in INTERVALS
        ]
        print("begins", flush=True)
        for start in range(0, count, 10):
            adding = (eb.jobs.add(made[place % 3]) for place in range(start, start + 10))
            await asyncio.gather(*adding)


asyncio.run(main(int(sys.argv[1])))
