"""What memory nodes do beside requests."""

from __future__ import annotations

from recollect.db.tenancy import Tenancy
from recollect.jobs.models import Counts, Job, Task
from recollect.nodes.service import Nodes


def tasks(nodes: Nodes, tenancy: Tenancy) -> tuple[Task, ...]:
    async def purge(job: Job) -> Counts:
        del job  # each batch is a transaction of its own, and what is gone stays gone
        return {"purged": await nodes.purge(tenancy)}

    return (
        Task("nodes.purge", purge, for_service_only=True, every="7 * * * *", cron="working-memory-purge"),
    )
