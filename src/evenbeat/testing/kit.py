"""The test kit: the app on a database of its own, its clock, and assertions about its jobs."""

import contextlib
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, cast

from evenbeat.app import Evenbeat
from evenbeat.config import load
from evenbeat.core.jobs.filters import Filter
from evenbeat.core.jobs.model import Job, Run
from evenbeat.store.database import clock as clocks
from evenbeat.sync import Portal, PortalPart
from evenbeat.testing.clock import Clock
from evenbeat.testing.inline import InlineNode

# Always the same: a test of a Monday schedule must not depend on the day of the test run.
BEGINNING = datetime(2030, 1, 1, 12, tzinfo=UTC)
MOST_JOBS = 10_000
MOST_SHOWN = 20


class Kit:
    """An app in a test: `async with kit`, or `with kit.through(portal)` in code without await.

    The app is configured for the test's database and stays so: code under test that opens the app
    later must not reach a real database.
    """

    def __init__(self, app: Evenbeat, database_url: str, starts_at: datetime | None = None) -> None:
        self.app = app
        self._database_url = database_url
        self._starts_at = starts_at or BEGINNING
        self._node: InlineNode | None = None

    async def __aenter__(self) -> Self:
        self._configure()
        try:
            return await self._begin()
        except BaseException:
            # Python does not call __aexit__ if __aenter__ fails.
            await self._close()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self._close()

    @contextlib.contextmanager
    def through(self, portal: Portal) -> Generator[Any]:
        """The same without await, for programs that use the app through this portal."""
        self._configure()
        with portal:
            try:
                portal.call(self._begin)
                yield PortalPart(portal, lambda: self)
            finally:
                portal.call(self._end)

    @property
    def clock(self) -> Clock:
        self._inline()
        return self._clock

    async def run_due(self) -> list[Run]:
        """Run all due jobs here, one after the other, and those that become due by that."""
        return await self._inline().run_due()

    async def runs(self, job: Job) -> list[Run]:
        """The runs of a job, oldest first, with the skipped beats."""
        page = await self.app.runs.of_job(job.uid, limit=MOST_JOBS)
        return page.runs[::-1]

    async def jobs(self, what: str | Callable[..., Any] | None = None) -> list[Job]:
        """Every job that is not deleted, or those of a kind, oldest first."""
        kinds = None if what is None else frozenset([self.app.call(what)[0]])
        chosen = Filter(kinds=kinds)
        page = await self.app.listing.page(chosen, limit=MOST_JOBS)
        return page.jobs[::-1]

    async def assert_enqueued(
        self,
        what: str | Callable[..., Any] | None = None,
        *,
        payload: Any = None,
        name: str | None = None,
        count: int | None = None,
    ) -> Job:
        """The newest job of this kind or function, with this name and payload, run or not.

        An object as the payload is compared by its own fields only. `count` is the number of such
        jobs that there must be, instead of at least one.
        """
        found = await self._find(what, payload, name)
        if found and count in (None, len(found)):
            return found[-1]
        wanted = "a job" if count is None else f"{count} jobs"
        raise AssertionError(
            f"{wanted} of {describe(what, payload, name)} should be there; "
            f"{len(found)} found among {describe_jobs(await self.jobs())}"
        )

    async def assert_not_enqueued(
        self,
        what: str | Callable[..., Any] | None = None,
        *,
        payload: Any = None,
        name: str | None = None,
    ) -> None:
        found = await self._find(what, payload, name)
        if found:
            raise AssertionError(
                f"no job of {describe(what, payload, name)} should be there: {describe_jobs(found)}"
            )

    async def _find(
        self, what: str | Callable[..., Any] | None, payload: Any, name: str | None
    ) -> list[Job]:
        # For a function of kind `function`, the payload holds its name.
        wanted = self.app.call(what, payload)[1] if callable(what) else payload
        return [
            job
            for job in await self.jobs(what)
            if (name is None or job.definition.name == name)
            and (wanted is None or is_within(wanted, job.definition.payload))
        ]

    def _configure(self) -> None:
        if self.app.is_open:
            raise RuntimeError("the app is open already: close it before the test opens the kit")
        self.app.configure(load(environ={}, database_url=self._database_url, clock="set"))

    async def _begin(self) -> Self:
        await self.app.open()
        await clocks.set_test_clock(self.app.database, self._starts_at)
        self._node = InlineNode(self.app)
        self._clock = Clock(self.app.database, self._node, self._starts_at)
        await self.app.prepare()
        return self

    async def _close(self) -> None:
        await self._end()
        await self.app.close()

    async def _end(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            await node.leave()

    def _inline(self) -> InlineNode:
        if self._node is None:
            raise RuntimeError("open the kit before using it: `async with evenbeat_kit as kit`")
        return self._node


def is_within(wanted: Any, found: Any) -> bool:
    """Whether `found` has every wanted field, for objects; else whether it is equal."""
    if not isinstance(wanted, dict) or not isinstance(found, dict):
        return wanted == found
    fields, given = cast("dict[str, Any]", wanted), cast("dict[str, Any]", found)
    return all(name in given and is_within(value, given[name]) for name, value in fields.items())


def describe(what: str | Callable[..., Any] | None, payload: Any, name: str | None) -> str:
    fields = {"kind": getattr(what, "__name__", what), "payload": payload, "name": name}
    return ", ".join(f"{field} {value!r}" for field, value in fields.items() if value is not None)


def describe_jobs(jobs: list[Job]) -> str:
    if not jobs:
        return "no jobs"
    lines = [
        f"  {job.definition.kind} {job.definition.name or ''} {job.definition.payload!r}"
        for job in jobs[-MOST_SHOWN:]
    ]
    return "\n".join([f"{len(jobs)}:", *lines])
