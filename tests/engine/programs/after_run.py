"""A script that runs until a signal, with code after it. The forced end comes quickly here.

The first argument says what takes longer than the forced end allows.
"""

import asyncio
import sys
import threading
import time

from evenbeat import Evenbeat
from evenbeat.engine import process
from evenbeat.observe import traces

process.LAST_WAIT = 0.1
process.LONGEST_FLUSH = 1.5
LONGER = 1.0
FOR_EVER = 3600.0


class SlowProvider:
    """Takes so long to send the last spans."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def shutdown(self) -> None:
        time.sleep(self._seconds)
        print("all spans are sent", flush=True)


async def leave_thread_of_loop(stopping: asyncio.Event) -> None:
    """Closing the loop waits for this thread."""
    asyncio.get_running_loop().run_in_executor(None, time.sleep, FOR_EVER)
    print("Evenbeat is ready", flush=True)
    await stopping.wait()


async def leave_other_thread(stopping: asyncio.Event) -> None:
    """The interpreter waits for this thread at its end."""
    threading.Thread(target=time.sleep, args=(FOR_EVER,)).start()
    print("Evenbeat is ready", flush=True)
    await stopping.wait()


def main(slow: str) -> None:
    match slow:
        case "thread of the loop":
            process.run_until_signal(leave_thread_of_loop)
        case "thread of a command":
            process.run_until_signal(leave_other_thread, ends_process=True)
        case "flush":
            traces.configure = lambda: SlowProvider(LONGER)
            Evenbeat().run()
        case "flush that hangs":
            traces.configure = lambda: SlowProvider(FOR_EVER)
            Evenbeat().run()
        case _:
            Evenbeat().run()
            time.sleep(LONGER)
    print("the script has come to its end", flush=True)


main(sys.argv[1])
