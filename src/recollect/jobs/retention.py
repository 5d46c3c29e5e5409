"""Forgetting in time: whatever the parts of the server keep for a while only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from recollect.jobs.models import Counts, Job, Task

Purge = Callable[[], Awaitable[int]]


def retention(purges: Mapping[str, Purge]) -> Task:
    """A job that has each part forget what has had its time, and says how much that was."""

    async def run(job: Job) -> Counts:
        counts: dict[str, int] = {}
        for number, (name, purge) in enumerate(purges.items(), 1):
            # Each deletes in transactions of its own; to do it twice is to find nothing the second time.
            counts[name] = await purge()
            await job.progress(number, len(purges))
        return counts

    return Task("retention", run, for_service_only=True, every="7 * * * *", cron="retention")
