"""A worker beside the test's server, and jobs for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller
from recollect.jobs.models import Run

PATIENCE_SECONDS = 30


@asynccontextmanager
async def working(services: Services) -> AsyncIterator[None]:
    """A real worker, for as long as the block lasts."""
    work = asyncio.create_task(services.worker.work())
    try:
        yield
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


async def enqueue(
    services: Services,
    task: str,
    arguments: dict[str, Any] | None = None,
    *,
    by: Caller = SERVICE,
    **how: Any,
) -> UUID:
    async with services.tenancy.acting_as(by) as tx:
        return await services.jobs.enqueue(tx, task, arguments, **how)


async def until(services: Services, job: UUID, holds: Callable[[Run], bool]) -> Run:
    """The job as soon as this holds for it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            async with services.tenancy.acting_as(SERVICE) as tx:
                run = await services.jobs.get(tx, job)
            if holds(run):
                return run
            await asyncio.sleep(0.05)


async def until_ended(services: Services, job: UUID) -> Run:
    return await until(services, job, lambda run: run.finished_at is not None)
