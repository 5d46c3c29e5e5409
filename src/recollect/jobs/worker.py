"""The worker: runs what is due, again and again, until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from recollect.errors import RecollectError
from recollect.kit.logs import logger

log = logger("worker")


@dataclass(frozen=True)
class Routine:
    """Something to be done every so often. It must not mind being done twice, or by two workers."""

    name: str
    every: timedelta
    run: Callable[[], Awaitable[int]]


async def work(routines: Sequence[Routine]) -> None:
    async with asyncio.TaskGroup() as group:
        for routine in routines:
            group.create_task(_repeat(routine))


async def _repeat(routine: Routine) -> None:
    while True:
        try:
            done = await routine.run()
        except RecollectError as error:
            log.warning("routine failed", routine=routine.name, code=error.code)
        except Exception as error:  # noqa: BLE001 - one routine's fault must not end the others
            log.error("routine failed", routine=routine.name, error=type(error).__qualname__)  # noqa: TRY400
        else:
            log.info("routine done", routine=routine.name, count=done)
        await asyncio.sleep(routine.every.total_seconds())
