"""What workers do for the brain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from recollect.brain.loading import Loading, Progress
from recollect.brain.models import Saved
from recollect.errors import InvalidInput, NotFound
from recollect.jobs.models import Counts, GiveUp, Job, Task

# Enough to see what is wrong; a job's record is no place for thousands of errors.
TOLD = 1_000


def tasks(loading: Loading) -> tuple[Task, ...]:
    async def load_company(job: Job) -> Counts:
        return await _load_one(job, "company_id", loading.load_company_memories)

    async def load_user(job: Job) -> Counts:
        return await _load_one(job, "user_id", loading.load_user_memories)

    async def load_companies(job: Job) -> Counts:
        return await loading.load_all_companies(_progress(job), job.checkpoint)

    async def load_users(job: Job) -> Counts:
        return await loading.load_all_users(_progress(job), job.checkpoint)

    return (
        Task("memory.load_company_memories", load_company, for_service_only=True),
        Task("memory.load_user_memories", load_user, for_service_only=True),
        Task("memory.load_all_companies_memories", load_companies, for_service_only=True),
        Task("memory.load_all_users_memories", load_users, for_service_only=True),
    )


async def _load_one(job: Job, argument: str, load: Callable[[UUID], Awaitable[Saved]]) -> Counts:
    try:
        wanted = UUID(str(job.arguments.get(argument)))
    except ValueError:
        raise GiveUp(f"{argument} must be a UUID.") from None
    try:
        saved = await load(wanted)
    except (NotFound, InvalidInput) as error:
        raise GiveUp(error.detail) from error
    errors = "; ".join(saved.errors)[:TOLD] or None
    return {"saved_count": saved.saved_count, "failed_count": saved.failed_count, "errors": errors}


def _progress(job: Job) -> Progress:
    async def progress(done: int, total: int, checkpoint: Mapping[str, Any]) -> None:
        await job.progress(done, total, checkpoint=checkpoint)

    return progress
