"""What workers do for the brain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from recollect.brain.loading import Loading, Progress
from recollect.brain.models import Saved
from recollect.brain.service import Brain
from recollect.errors import InvalidInput, NotFound
from recollect.events.models import Subscription
from recollect.jobs.models import Counts, GiveUp, Job, Task

# Enough to see what is wrong; a job's record is no place for thousands of errors.
TOLD = 1_000
FOLLOW = "brain.follow"


def tasks(brain: Brain, loading: Loading) -> tuple[Task, ...]:
    async def load_company(job: Job) -> Counts:
        return await _load_one(job, "company_id", loading.load_company_memories)

    async def load_user(job: Job) -> Counts:
        return await _load_one(job, "user_id", loading.load_user_memories)

    async def load_companies(job: Job) -> Counts:
        return await loading.load_all_companies(_progress(job), job.checkpoint)

    async def load_users(job: Job) -> Counts:
        return await loading.load_all_users(_progress(job), job.checkpoint)

    async def reconcile(job: Job) -> Counts:
        del job  # whatever has been mended stays mended
        return (await brain.reconcile()).counts

    async def settle(job: Job) -> Counts:
        del job
        return (await brain.settle()).counts

    async def follow(job: Job) -> Counts:
        data = job.arguments["event"]["data"]
        if data.get("source") != "mem0":
            return {"checked": 0}
        return (await brain.follow(data["memory_id"])).counts

    return (
        Task("brain.reconcile", reconcile, for_service_only=True, every="41 4 * * *", cron="brain-reconcile"),
        Task("brain.settle", settle, for_service_only=True, every="*/5 * * * *", cron="brain-settle"),
        Task(FOLLOW, follow, for_service_only=True),
        Task("memory.load_company_memories", load_company, for_service_only=True),
        Task("memory.load_user_memories", load_user, for_service_only=True),
        Task("memory.load_all_companies_memories", load_companies, for_service_only=True),
        Task("memory.load_all_users_memories", load_users, for_service_only=True),
    )


def subscriptions(*, follow_mem0: bool) -> tuple[Subscription, ...]:
    """What mem0 tells of is looked into where it keeps our memories, and nowhere else."""
    changes = ["memory.added", "memory.updated", "memory.deleted"]
    return (Subscription(changes, FOLLOW),) if follow_mem0 else ()


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
