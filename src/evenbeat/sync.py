"""A portal for code without await: it makes calls on an event loop in a thread of its own."""

import asyncio
import atexit
import inspect
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast
from weakref import WeakSet

from evenbeat.app import Evenbeat

Given = ParamSpec("Given")
Value = TypeVar("Value")
AT_ONCE = 500


class Portal:
    """An app for any number of threads: `Portal(eb).jobs.add(…)` is `await eb.jobs.add(…)`.

    The first call opens the app; `close` or the end of the process closes it. With `migrated` it
    brings the schema up to date first.
    """

    def __init__(self, app: Evenbeat, *, migrated: bool = False) -> None:
        self._app = app
        self._migrated = migrated
        self._reset()
        PORTALS.add(self)

    def call(
        self,
        function: Callable[Given, Awaitable[Value]],
        *given: Given.args,
        **named: Given.kwargs,
    ) -> Value:
        """Wait for a coroutine of the app: `portal.call(eb.enqueue, "report")`."""
        self.open()
        return self._wait_for(partial(function, *given, **named))

    def each(self, items: AsyncIterator[Value]) -> Iterator[Value]:
        """Iterate over an async iterator of the app, as `portal.runs.export()` does."""
        self.open()
        loop = self._loop

        async def take_some() -> list[Value]:
            # Many at once: a switch of threads for each item would take longer than reading it.
            taken: list[Value] = []
            async for item in items:
                taken.append(item)
                if len(taken) == AT_ONCE:
                    break
            return taken

        begun = cast("AsyncGenerator[Any]", items) if isinstance(items, AsyncGenerator) else None
        if begun is not None:
            self._begun.add(begun)
        try:
            while taken := self._wait_for(take_some):
                yield from taken
                if self._loop is not loop:
                    raise RuntimeError("the portal was closed meanwhile: some items are missing")
        finally:
            if begun is not None:
                self._begun.discard(begun)
            if self._loop is loop and begun is not None:
                closing = self._begin(begun.aclose)
                # The garbage collector may run this on the portal's own loop, which would then
                # wait for itself.
                if threading.current_thread() is not self._thread:
                    wait_for(closing)

    def open(self) -> Self:
        refuse_event_loop()
        with self._lock:
            if self._loop is None:
                if self._app.is_open:
                    raise RuntimeError(
                        "the app is open in another event loop already: await it there, or give "
                        "the portal an Evenbeat of its own"
                    )
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="evenbeat-portal", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)
            if not self._app.is_open:
                migrated = partial(self._app.open, migrated=True)
                self._wait_for(migrated if self._migrated else self._app.__aenter__)
        return self

    def close(self) -> None:
        """Close the app; a later call opens it again."""
        with self._lock:
            if self._loop is None or self._thread is None:
                return
            atexit.unregister(self.close)
            self._wait_for(self._finish)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._loop = self._thread = None
        # Not on the loop: at the end of a process, asyncio cannot start threads any more.
        self._app.release_server()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if inspect.iscoroutinefunction(getattr(type(self._app), name, None)):
            return partial(self.call, getattr(self._app, name))
        # The parts of an app exist once it is open.
        self.open()
        found = getattr(self._app, name)
        return (
            PortalPart(self, partial(getattr, self._app, name)) if has_coroutines(found) else found
        )

    def _wait_for(self, begin: Callable[[], Awaitable[Value]]) -> Value:
        return wait_for(self._begin(begin))

    def _begin(self, begin: Callable[[], Awaitable[Value]]) -> Future[Value]:
        async def wait() -> Value:
            return await begin()

        loop = self._loop
        if loop is None:
            raise RuntimeError("another thread has closed the portal meanwhile: call again")
        return asyncio.run_coroutine_threadsafe(wait(), loop)

    async def _finish(self) -> None:
        """End everything on the loop, so that no thread waits for a loop that has stopped."""
        # Not `loop.shutdown_asyncgens`: asyncio then warns of each generator begun later.
        closing = (each.aclose() for each in list(self._begun))
        await asyncio.gather(*closing, return_exceptions=True)
        await self._app.disconnect()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _reset(self) -> None:
        """Begin without a loop; in a forked process too, where the parent's threads are missing."""
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # Generators that are being iterated: each may hold a connection.
        self._begun: set[AsyncGenerator[Any]] = set()

    def _forget_parent(self) -> None:
        if self._loop is not None:
            self._app.forget()
            atexit.unregister(self.close)
            # Kept alive: closing it would deregister sockets from the parent's epoll.
            PARENT_LOOPS.append(self._loop)
        self._reset()


class PortalPart:
    """A part of an app, as in `portal.jobs`: its coroutines and async iterators become plain ones.

    It is looked up at every use, since an app that is opened again has new parts.
    """

    def __init__(self, portal: Portal, find: Callable[[], Any]) -> None:
        self._portal = portal
        self._find = find

    def __getattr__(self, name: str) -> Any:
        self._portal.open()
        found = getattr(self._find(), name)
        if inspect.iscoroutinefunction(found):
            return partial(self._portal.call, found)
        if inspect.ismethod(found):
            return partial(self._call, found)
        if not has_coroutines(found):
            return found
        return PortalPart(self._portal, lambda: getattr(self._find(), name))

    def _call(self, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call a plain method; it may return an async iterator."""
        found = method(*given, **named)
        if not isinstance(found, AsyncIterator):
            return found
        return self._portal.each(cast("AsyncIterator[Any]", found))

    def __dir__(self) -> list[str]:
        return dir(self._find())


def wait_for(future: Future[Value]) -> Value:
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


def has_coroutines(part: object) -> bool:
    return any(map(inspect.iscoroutinefunction, vars(type(part)).values()))


def refuse_event_loop() -> None:
    """Raise RuntimeError on a running event loop, which the portal would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "a portal blocks, and an event loop is running here: await the app itself, "
        "as in `await eb.jobs.add(…)`"
    )


PORTALS: WeakSet[Portal] = WeakSet()
PARENT_LOOPS: list[asyncio.AbstractEventLoop] = []


def forget_parent() -> None:
    for portal in PORTALS:
        portal._forget_parent()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=forget_parent)
