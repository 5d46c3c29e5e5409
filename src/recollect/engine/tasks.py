"""What workers do for the memory engine."""

from __future__ import annotations

from recollect.engine.upkeep import Upkeep
from recollect.jobs.models import Counts, Job, Task


def tasks(upkeep: Upkeep) -> tuple[Task, ...]:
    async def reembed(job: Job) -> Counts:
        async def progress(placed: int) -> None:
            await job.progress(placed)

        # Each batch is a transaction of its own, and one that has its vectors is not found again.
        return {"embedded": await upkeep.reembed(progress)}

    async def index(job: Job) -> Counts:
        del job
        return {"built": await upkeep.index()}

    return (
        Task("memory.reembed", reembed, for_service_only=True, every="*/5 * * * *", cron="memory-reembed"),
        Task("memory.index", index, for_service_only=True, every="20 * * * *", cron="memory-index"),
    )
