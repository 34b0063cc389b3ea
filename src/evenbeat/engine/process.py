"""A process that works until it is told to stop: its loop, its signals, and its end."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator

import uvloop

from evenbeat.core.errors import EvenbeatError
from evenbeat.observe import log, traces

# For threads and tasks that a handler left behind; everything of ours is closed by then.
LAST_WAIT = 3.0
INTERRUPTED = 130
# What a run leaves behind is freed at once, by counting. The collector only looks for circles, and
# by its usual 700 it looked at every batch of runs that was under way, and took it for one to stay.
YOUNG_OBJECTS = 20_000

Work = Callable[[asyncio.Event], Awaitable[None]]


def run_until_signal(work: Work) -> None:
    """Do this work until a signal comes, which sets its event. The second one waits for nothing."""
    provider = traces.configure()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = 1
            try:
                runner.run(stop_on_signals(work))
                code = 0
            except asyncio.CancelledError:
                code = INTERRUPTED
                raise
            finally:
                exit_by_force(code, after=LAST_WAIT)
    except asyncio.CancelledError:
        sys.exit(INTERRUPTED)
    except BaseExceptionGroup as group:
        ours = group.subgroup(EvenbeatError)
        if ours is None:
            raise
        raise first_leaf(ours) from None
    finally:
        if provider is not None:
            provider.shutdown()


async def stop_on_signals(work: Work) -> None:
    stopping = asyncio.Event()
    with handle_signals(stopping):
        await work(stopping)


@contextlib.contextmanager
def handle_signals(stopping: asyncio.Event) -> Generator[None]:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def stop() -> None:
        if not stopping.is_set():
            log.get_logger().info(log.STOPPING)
            stopping.set()
        elif task is not None:
            task.cancel()

    chosen = stop_signals()
    for each in chosen:
        loop.add_signal_handler(each, stop)
    try:
        yield
    finally:
        for each in chosen:
            loop.remove_signal_handler(each)


def stop_signals() -> list[signal.Signals]:
    """Ctrl-C, a manager's wish, and the end of the terminal, which `nohup` wants to be ignored."""
    ignores_the_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if ignores_the_terminal else [signal.SIGHUP])]


def exit_by_force(code: int, *, after: float) -> None:
    """End the process soon, even if the loop waits for a handler that will not end."""

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    timer = threading.Timer(after, leave)
    timer.daemon = True
    timer.start()


def first_leaf(group: BaseExceptionGroup[EvenbeatError]) -> EvenbeatError:
    first = group.exceptions[0]
    return first_leaf(first) if isinstance(first, BaseExceptionGroup) else first


class BackgroundWork:
    """Work beside the caller's own: begun until it is ready, and ended when it is told to."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()
        self._ready = asyncio.Event()

    async def begin(
        self, work: Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]]
    ) -> None:
        """Return when it is ready. What it raises before that is raised here."""
        self._working = asyncio.ensure_future(work(self._stopping, self._ready.set))
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            await asyncio.wait([self._working, ready], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._working.cancel()
            raise
        finally:
            ready.cancel()
        if self._working.done():
            await self._working

    async def end(self) -> None:
        """Tell it to stop, and wait for it. What it has raised meanwhile is raised here."""
        self._stopping.set()
        await self._working
