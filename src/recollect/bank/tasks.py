"""What the bank does beside requests."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from recollect.bank.service import Bank
from recollect.db.tenancy import Tenancy
from recollect.events.models import Subscription
from recollect.jobs.models import Counts, Job, Task

NOTE_UPGRADE = "bank.note_upgrade"


def tasks(bank: Bank, tenancy: Tenancy) -> tuple[Task, ...]:
    async def purge(job: Job) -> Counts:
        del job  # each batch is a transaction of its own, and what is gone stays gone
        return {"purged": await bank.purge(tenancy)}

    async def note_upgrade(job: Job) -> Counts | None:
        event = job.arguments["event"]
        if event["data"].get("isPremium") is not True:
            return {"noted": 0}
        user_id = UUID(event["user_id"])
        upgraded_at = datetime.fromisoformat(event["happened_at"]).isoformat()
        async with job.step() as tx:
            await bank.set_memory_key(tx, user_id, "upgradedAt", upgraded_at, "meta")
            await job.finish(tx, {"noted": 1})
        return None

    return (
        Task("bank.purge", purge, for_service_only=True, every="17 3 * * *", cron="bank-purge"),
        Task(NOTE_UPGRADE, note_upgrade),
    )


def subscriptions(*, note_upgrades: bool) -> tuple[Subscription, ...]:
    return (Subscription(["user.updated"], NOTE_UPGRADE),) if note_upgrades else ()
