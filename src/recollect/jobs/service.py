"""What can be done with jobs from outside: queue them, look at them, stop them, try them again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.errors import NotFound
from recollect.jobs.models import Run, State, Task, queries

PURGE_BATCH = 5_000
PAGE = 100


class UnknownJob(NotFound):
    """There is no such job, or it is not yours."""

    code = "unknown_job"


class Jobs:
    def __init__(self, keep_days: int) -> None:
        self.tasks: dict[str, Task] = {}
        self._keep = timedelta(days=keep_days)

    def offer(self, *tasks: Task) -> None:
        """Have workers do these tasks."""
        self.tasks |= {task.name: task for task in tasks}

    async def enqueue(  # noqa: PLR0913 - each is an option, given by name
        self,
        tx: Transaction,
        task: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        at: datetime | None = None,
        user_id: UUID | None = None,
        workspace_id: UUID | None = None,
        in_order_of: str | None = None,
        origin: str = "request",
        last: bool = False,
    ) -> UUID:
        """Queue a job in the caller's transaction: it exists if and only if the rest of it does.

        With a ``key``, the job of that key that waits already, if there is one, is meant instead. Jobs
        ``in_order_of`` the same thing are done one after another, in the order in which they were queued.
        """
        row = await tx.one(
            queries.enqueue,
            {
                "task": task,
                "arguments": json.dumps(arguments or {}),
                "key": key,
                "at": at,
                "user_id": user_id,
                "workspace_id": workspace_id,
                "in_order_of": in_order_of,
                "origin": origin,
            },
            last=last,
        )
        queued: UUID = row["id"]
        return queued

    async def get(self, tx: Transaction, run_id: UUID) -> Run:
        row = await tx.maybe(queries.get_run, {"id": run_id}, last=True)
        if row is None:
            raise UnknownJob
        return Run(**row)

    async def list(
        self,
        tx: Transaction,
        *,
        state: State | None = None,
        task: str | None = None,
        before: tuple[datetime, UUID] | None = None,
        limit: int = PAGE,
    ) -> list[Run]:
        """The jobs that the caller may see, the newest first."""
        before_time, before_id = before or (None, None)
        parameters = {
            "state": state,
            "task": task,
            "before": before_time,
            "before_id": before_id,
            "limit": limit,
        }
        query = queries.list_all_runs if tx.caller is SERVICE else queries.list_runs
        return [Run(**row) for row in await tx.all(query, parameters, last=True)]

    async def counts(self, tx: Transaction) -> dict[str, int]:
        """How many of them are in each state."""
        query = queries.count_all_runs if tx.caller is SERVICE else queries.count_runs
        return {row["state"]: row["jobs"] for row in await tx.all(query, last=True)}

    async def backlog(self, tx: Transaction) -> dict[str, float]:
        """What there is to do, of everybody's."""
        return dict(await tx.one(queries.backlog, last=True))

    async def cancel(self, tx: Transaction, run_id: UUID) -> Run:
        """Take a job out of the queue, or stop it where it is."""
        await tx.run(queries.cancel_run, {"id": run_id})
        return await self.get(tx, run_id)

    async def retry(self, tx: Transaction, run_id: UUID) -> Run:
        """Queue a job again that failed or was cancelled, with all its attempts."""
        await tx.run(queries.retry_run, {"id": run_id})
        return await self.get(tx, run_id)

    async def purge(self, tenancy: Tenancy) -> int:
        """Forget jobs that ended long ago."""
        purged, gone = 0, PURGE_BATCH
        while gone == PURGE_BATCH:
            async with tenancy.acting_as(SERVICE) as tx:
                parameters = {"age": self._keep, "batch": PURGE_BATCH}
                gone = await tx.run(queries.purge_runs, parameters, last=True)
            purged += gone
        return purged
