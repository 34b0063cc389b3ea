"""The portal's loop collects an unfinished iterator; if it waited for itself, this never ended."""

from collections.abc import AsyncGenerator

from evenbeat import Evenbeat, Portal, sync

sync.AT_ONCE = 1
portal = Portal(Evenbeat())


async def items() -> AsyncGenerator[int]:
    try:
        yield 1
        yield 2
    finally:
        print("dropped", flush=True)


async def drop() -> None:
    begun.clear()


begun = [portal.each(items())]
next(begun[0])
portal.call(drop)
portal.close()
