"""Messages about what went wrong, to those who can do something about it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from recollect.db.tenancy import Transaction
from recollect.events.models import Subscription
from recollect.jobs.models import Counts, Job, Task
from recollect.mail.service import Mail
from recollect.mail.store import queries

NOTIFY = "mail.notify"


def subscriptions() -> tuple[Subscription, ...]:
    return (Subscription(["job.failed", "webhook.disabled"], NOTIFY),)


def tasks(mail: Mail) -> tuple[Task, ...]:
    async def notify(job: Job) -> Counts | None:
        event = job.arguments["event"]
        if event["data"].get("task") == NOTIFY:
            return {"told": 0}  # a notice about a notice that failed would fail too
        async with job.step() as tx:
            people = await _concerned(tx, event)
            for user_id in people:
                await mail.send(tx, user_id, event["type"], *_words(event), link=_link(event))
            await job.finish(tx, {"told": len(people)})
        return None

    return (Task(NOTIFY, notify),)


async def _concerned(tx: Transaction, event: dict[str, Any]) -> list[UUID]:
    """The user; else those who manage the workspace; else the admins."""
    if event["user_id"] is not None:
        return [UUID(event["user_id"])]
    query = queries.managers if event["workspace_id"] is not None else queries.admins
    return [row["user_id"] for row in await tx.all(query, {"workspace_id": event["workspace_id"]})]


def _words(event: dict[str, Any]) -> tuple[str, str]:
    data = event["data"]
    if event["type"] == "job.failed":
        return (
            f"The job {data['task']} failed",
            f"The last attempt ended with: {data['error']} You can look at it and try it again.",
        )
    return (
        "A webhook was disabled",
        f"It was switched off: {data.get('reason', 'it kept failing.')} What happens while it is off is not "
        "sent to it, also not later. Enable it again once its address answers: then it gets what was on its "
        "way before.",
    )


def _link(event: dict[str, Any]) -> str | None:
    kind, _, name = event["subject"].partition("/")
    return {"job": f"/jobs/{name}", "webhook": f"/webhooks/{name}"}.get(kind)
