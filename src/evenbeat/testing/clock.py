"""The clock of a test: it stands still until the test moves it, which runs the beats on the way."""

from datetime import datetime, timedelta

from evenbeat.core.errors import InvalidInput
from evenbeat.core.jobs.model import Run
from evenbeat.core.time.schedules.base.instants import check_instant
from evenbeat.store.database import clock as clocks
from evenbeat.store.database.pool import Database
from evenbeat.testing.inline import MOST_RUNS, InlineNode

SMALLEST_STEP = timedelta(microseconds=1)


class Clock:
    """The time of everything on one database."""

    def __init__(self, database: Database, node: InlineNode, now: datetime) -> None:
        self._database = database
        self._node = node
        self._now = check_instant(now, "now")

    @property
    def now(self) -> datetime:
        return self._now

    async def move_to(self, instant: datetime) -> list[Run]:
        """Move the clock there; jobs that fall due on the way run, each at its own instant."""
        target = check_instant(instant, "instant")
        if target < self._now:
            raise InvalidInput("instant", f"is in the past: the clock is at {self._now}")
        ran = await self._node.run_due()
        while (wait := await self._node.next_in(target - self._now)) is not None:
            await self.set_to(self._now + max(wait, SMALLEST_STEP))
            ran += await self._node.run_due()
            if len(ran) > MOST_RUNS:
                raise RuntimeError(
                    f"more than {MOST_RUNS:,} runs before {target}: go there in smaller steps"
                )
        await self.set_to(target)
        return ran + await self._node.run_due()

    async def move_by(self, **length: float) -> list[Run]:
        """As in `await clock.move_by(hours=2)`."""
        return await self.move_to(self._now + timedelta(**length))

    async def set_to(self, instant: datetime) -> None:
        """Set the clock and run nothing, as if no node had been alive in between."""
        await clocks.set_test_clock(self._database, instant)
        self._now = instant
