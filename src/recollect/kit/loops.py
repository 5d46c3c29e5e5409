"""Loops that run as long as the process does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from recollect.kit.logs import logger

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
STEADY_SECONDS = 60
# Longer than any loop takes to end in good order.
CANCELLED_AGAIN_AFTER = 30.0

log = logger("loops")


async def for_ever(work: Callable[[], Awaitable[None]]) -> None:
    """Begin anew whenever it ends: what it needs may go away and come back, and no fault of one loop may end
    the others."""
    clock = asyncio.get_running_loop().time
    pause = FIRST_PAUSE
    while True:
        began = clock()
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - see above
            log.warning("a loop begins anew", loop=_name(work), error=_kind(error))
        heed_cancellation()
        if clock() - began > STEADY_SECONDS:
            pause = FIRST_PAUSE
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def heed_cancellation() -> None:
    """End the running task if it was cancelled and something on the way has swallowed that: a driver whose
    connection breaks while it is cancelled raises another error instead; see also ``stop``."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def stop(*tasks: asyncio.Task[Any], again_after: float | None = None) -> None:
    """Cancel tasks until they have ended. In Python 3.11 ``wait_for``, which libraries use, swallows a
    cancellation that comes just as what it waits for is there."""
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=again_after or CANCELLED_AGAIN_AFTER)
    await asyncio.gather(*tasks, return_exceptions=True)


def _name(work: Callable[[], Awaitable[None]]) -> str:
    return getattr(work, "__qualname__", repr(work))


def _kind(error: BaseException) -> str:
    # Never the text: it may quote what is private.
    if isinstance(error, BaseExceptionGroup):
        return ", ".join(map(_kind, error.exceptions))
    return type(error).__qualname__
