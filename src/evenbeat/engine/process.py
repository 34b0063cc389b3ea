"""A process that works until a signal stops it: its loop, its signals, and its end."""

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

# How long the loop may take to close, and a process to end, while threads or tasks that a handler
# left behind hold it up. Everything of ours is closed by then.
LAST_WAIT = 3.0
# How long the last spans may take to be sent.
LONGEST_FLUSH = 10.0
INTERRUPTED = 130
# The objects of a run are freed at once, by reference counting. The collector only finds cycles;
# with its default of 700 it searched every batch of runs under way, and moved it to an older
# generation.
YOUNG_OBJECTS = 20_000

Work = Callable[[asyncio.Event], Awaitable[None]]


def run_until_signal(work: Work, *, ends_process: bool = False) -> None:
    """Do this work until a signal comes, which sets its event; a second signal cancels the work.

    `ends_process`: no code of a user follows, so that threads which a handler left behind must
    not hold up the end of the process.
    """
    provider = traces.configure()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
    code = 1
    try:
        run_loop(work)
        code = 0
    except asyncio.CancelledError:
        code = INTERRUPTED
        sys.exit(INTERRUPTED)
    except BaseExceptionGroup as group:
        ours = group.subgroup(EvenbeatError)
        if ours is None:
            raise
        raise first_leaf(ours) from None
    finally:
        if provider is not None:
            flush_traces(provider)
        if ends_process:
            exit_by_force(code, after=LAST_WAIT)


def run_loop(work: Work) -> None:
    """Run the work on a loop of its own. If the loop cannot be closed, the process ends."""
    forced_exit: threading.Timer | None = None
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
                forced_exit = exit_by_force(code, after=LAST_WAIT)
    finally:
        if forced_exit is not None:
            forced_exit.cancel()


def flush_traces(provider: traces.Provider) -> None:
    """Send the last spans, in a thread: a collector that does not answer must not hold us up."""
    flushing = threading.Thread(target=provider.shutdown, name="evenbeat-flush", daemon=True)
    flushing.start()
    flushing.join(LONGEST_FLUSH)


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
    """SIGINT, SIGTERM, and SIGHUP unless it is ignored, as it is under `nohup`."""
    ignores_hangup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if ignores_hangup else [signal.SIGHUP])]


def exit_by_force(code: int, *, after: float) -> threading.Timer:
    """End the process after a while, whatever it waits for, unless the timer is cancelled."""

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    timer = threading.Timer(after, leave)
    timer.daemon = True
    timer.start()
    return timer


def first_leaf(group: BaseExceptionGroup[EvenbeatError]) -> EvenbeatError:
    first = group.exceptions[0]
    return first_leaf(first) if isinstance(first, BaseExceptionGroup) else first


class BackgroundWork:
    """Work in a task beside the caller's: `begin` returns when it is ready, `end` when it ended."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()
        self._ready = asyncio.Event()

    async def begin(
        self, work: Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]]
    ) -> None:
        """Return when the work is ready. An error of it from before that is raised here."""
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
        """Tell the work to stop, and wait for it. An error of it is raised here."""
        self._stopping.set()
        await self._working
