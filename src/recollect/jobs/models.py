"""The nouns of jobs: a task is what can be done, a run is one wish to have it done, a job is a run that a
worker has in hand."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.db.queries import Queries
from recollect.db.tenancy import SERVICE, Caller, Tenancy, Transaction

queries = Queries(__package__)

State = Literal["waiting", "running", "succeeded", "failed", "cancelled"]
Counts = Mapping[str, int | str | None]

# Telling how far a job is costs a transaction: often enough to look at is enough.
PROGRESS_SECONDS = 0.5


class GiveUp(Exception):
    """Trying again would not help: the job is put aside for a person to look at."""


class TryLater(Exception):
    """Not now, and nobody's fault: it does not count as a failure."""

    def __init__(self, after: timedelta, reason: str = "Not possible yet.") -> None:
        super().__init__(reason)
        self.after = after


@dataclass(frozen=True)
class Task:
    """Something that workers can do.

    ``every`` is a cron expression that puts it on the schedule under the name ``cron``; the settings can
    say otherwise. With ``per_workspace`` it is queued for each workspace, which may keep its own hours.
    """

    name: str
    run: Callable[[Job], Awaitable[Counts | None]]
    attempts: int = 5
    for_service_only: bool = False
    """Whether it is refused to users, who may queue what they like in their own name."""
    every: str | None = None
    cron: str | None = None
    per_workspace: bool = False


class Failure(BaseModel):
    """An attempt that failed."""

    attempt: int
    started_at: datetime | None
    ended_at: datetime
    error: str


class Run(BaseModel):
    """A job, as people see it."""

    id: UUID
    task: str
    state: State
    user_id: UUID | None = Field(description="Whose rights it has; none: the service's.")
    workspace_id: UUID | None
    asked_by: UUID | None = Field(description="Who asked; none: the schedule or the service.")
    origin: str = Field(description="What it came from: request, schedule, cron, event or celery.")
    arguments: dict[str, Any]
    attempt: int
    done: int
    total: int | None
    result: dict[str, Any] | None
    error: str | None
    failures: list[Failure]
    created_at: datetime
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass
class Job:
    """A run in a worker's hands."""

    id: UUID
    task: str
    user_id: UUID | None
    workspace_id: UUID | None
    asked_by: UUID | None
    origin: str
    arguments: dict[str, Any]
    attempt: int
    failed: int
    """How many of the attempts before failed; the others were interrupted."""
    done: int
    total: int | None
    checkpoint: Any
    created_at: datetime
    key: str | None
    fence: UUID = field(repr=False)
    tenancy: Tenancy = field(repr=False)
    is_finished: bool = False
    _step: Transaction | None = None
    _told_at: float = 0

    @property
    def caller(self) -> Caller:
        """Whose rights the job has."""
        return SERVICE if self.user_id is None else Caller.user(self.user_id)

    @asynccontextmanager
    async def step(self) -> AsyncIterator[Transaction]:
        """A transaction with the rights of the job's user, or of the service if it has none. Nothing of it
        stands if the job was cancelled or another worker has taken it over."""
        async with self.tenancy.acting_as(self.caller) as tx:
            await tx.run(queries.hold_run, {"id": self.id, "fence": self.fence})
            self._step = tx
            try:
                yield tx
            finally:
                self._step = None

    async def progress(self, done: int, total: int | None = None, *, checkpoint: Any = None) -> None:
        """Say how far the job is. Within a step, it is said in the step's transaction: ``checkpoint`` then
        tells where the job goes on after a crash, together with the work up to there."""
        self.done, self.total = done, total if total is not None else self.total
        if checkpoint is not None:
            self.checkpoint = checkpoint
        parameters = {
            "id": self.id,
            "fence": self.fence,
            "done": done,
            "total": total,
            "checkpoint": None if checkpoint is None else json.dumps(checkpoint),
        }
        if self._step is not None:
            await self._step.run(queries.advance_run, parameters)
            return
        now = time.monotonic()
        if checkpoint is None and done != total and now - self._told_at < PROGRESS_SECONDS:
            return
        self._told_at = now
        async with self.tenancy.acting_as(SERVICE, for_one_call=True) as own:
            await own.run(queries.advance_run, parameters, last=True)

    async def finish(self, tx: Transaction, counts: Counts | None = None) -> None:
        """Mark the job as done in the transaction of its last effect: both stand, or neither."""
        parameters = {"id": self.id, "fence": self.fence, "result": json.dumps(dict(counts or {}))}
        tx.afterwards(self._is_done)
        await tx.run(queries.finish_run, parameters, last=True)

    async def _is_done(self) -> None:
        self.is_finished = True
