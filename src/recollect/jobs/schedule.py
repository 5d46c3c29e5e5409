"""The schedule: which jobs come due when.

A job's clock ticks by a cron expression, in UTC. A tick is honoured at most once, whoever asks: the row of
the job is locked, and the job queued in the same transaction that says so. Ticks that passed while no server
ran are honoured once, together, when one is back.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from croniter import CroniterBadDateError, croniter
from pydantic import BaseModel

from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.errors import InvalidInput, Misconfigured, NotFound
from recollect.jobs.models import Task, queries
from recollect.jobs.service import Jobs
from recollect.kit.logs import logger

log = logger("schedule")

LOOK_SECONDS = 15
OFF = "off"
MAX_CRON = 200


class UnknownSchedule(NotFound):
    """There is no scheduled job of that name."""

    code = "unknown_schedule"


class InvalidCron(InvalidInput):
    """That is not a cron expression of five fields, such as "30 3 * * *"."""

    code = "invalid_cron"


class Scheduled(BaseModel):
    """A job on the schedule."""

    job: str
    task: str
    cron: str | None
    per_workspace: bool
    next_tick: datetime | None
    last_tick: datetime | None = None
    last_run: UUID | None = None


class WorkspaceHours(BaseModel):
    """When a workspace wants a job to be done."""

    job: str
    workspace_id: UUID
    cron: str | None
    last_tick: datetime | None
    last_run: UUID | None


class Triggered(BaseModel):
    """What became of a call from an outside scheduler."""

    job: str
    period: datetime
    """When the present period began: in it the job runs once, however often it is asked for."""
    run: UUID | None
    is_new: bool


@dataclass(frozen=True)
class Entry:
    task: Task
    clock: str
    """By which periods are told."""
    is_on: bool
    """Whether we see to it ourselves, or leave it to an outside scheduler."""


# croniter also takes "R" for a random moment, another one each time it is asked: no clock.
_RANDOM = re.compile(r"(^|[\s,])[rh]", re.IGNORECASE)


def valid_cron(expression: str) -> str:
    is_form = len(expression) <= MAX_CRON and len(expression.split()) == 5 and not _RANDOM.search(expression)
    if not is_form or not croniter.is_valid(expression):
        raise InvalidCron
    try:
        tick_before(expression, datetime.now(UTC))
    except CroniterBadDateError as error:
        # It would stop the clocks of all others each time that it is looked at.
        raise InvalidCron(f'"{expression}" is never: there is no such day.') from error
    return expression


def tick_before(expression: str, now: datetime) -> datetime:
    """The last tick up to now."""
    minute = now.replace(second=0, microsecond=0)
    if croniter.match(expression, minute):
        return minute
    found: datetime = croniter(expression, minute).get_prev(datetime)
    return found


class Schedule:
    def __init__(self, jobs: Jobs, overrides: Mapping[str, str]) -> None:
        self._jobs = jobs
        self._entries = {
            task.cron: _entry(task, task.cron, task.every, overrides.get(task.cron))
            for task in jobs.tasks.values()
            if task.cron and task.every
        }
        if unknown := overrides.keys() - self._entries.keys():
            known = ", ".join(sorted(self._entries))
            raise Misconfigured(f"RECOLLECT_SCHEDULE names {', '.join(sorted(unknown))}; known are: {known}.")
        self._seen: dict[str, datetime] = {}

    async def watch(self, tenancy: Tenancy) -> None:
        while True:
            await self.queue_due(tenancy)
            await asyncio.sleep(LOOK_SECONDS)

    async def queue_due(self, tenancy: Tenancy, now: datetime | None = None) -> int:
        """Queue what has come due since the last look; says how many ticks were honoured."""
        honoured, now = 0, now or datetime.now(UTC)
        for name, entry in self._entries.items():
            if not entry.is_on:
                continue
            tick = tick_before(entry.clock, now)
            if self._seen.get(name) != tick:
                async with tenancy.acting_as(SERVICE) as tx:
                    await tx.run(queries.ensure_schedule, {"job": name})
                    honoured += (await self._honour(tx, name, None, tick)).is_new
                self._seen[name] = tick
            if entry.task.per_workspace:
                honoured += await self._queue_workspaces(tenancy, name, now)
        return honoured

    async def _queue_workspaces(self, tenancy: Tenancy, name: str, now: datetime) -> int:
        """For those that keep their own hours."""
        honoured = 0
        async with tenancy.acting_as(SERVICE) as tx:
            rows = await tx.all(queries.list_hours, {"job": name})
        for row in rows:
            try:
                tick = tick_before(valid_cron(row["cron"]), now)
                if row["last_tick"] is None or row["last_tick"] < tick:
                    async with tenancy.acting_as(SERVICE) as tx:
                        honoured += (await self._honour(tx, name, row["workspace_id"], tick)).is_new
            except (InvalidCron, NotFound) as error:
                # One workspace's hours, wrong or just dropped, must not stop everybody's.
                log.warning(
                    "hours passed over", job=name, workspace=str(row["workspace_id"]), code=error.code
                )
        return honoured

    async def trigger(self, tx: Transaction, name: str) -> Triggered:
        """For outside schedulers: run the job, unless it has run in the present period."""
        entry = self._entry(name)
        await tx.run(queries.ensure_schedule, {"job": name})
        tick = tick_before(entry.clock, datetime.now(UTC))
        return await self._honour(tx, name, None, tick, is_asked=True)

    async def _honour(
        self, tx: Transaction, name: str, workspace_id: UUID | None, tick: datetime, *, is_asked: bool = False
    ) -> Triggered:
        place = {"job": name, "workspace_id": workspace_id}
        row = await tx.one(queries.lock_schedule, place)
        is_first = row["last_tick"] is None
        if not is_first and row["last_tick"] >= tick and (row["has_run"] or not is_asked):
            return Triggered(job=name, period=tick, run=row["last_run"], is_new=False)
        # Seen for the first time, nothing was missed: its clock begins to tick now.
        has_run, run = is_asked or not is_first, None
        if has_run:
            run = await self._queue(tx, name, workspace_id, "cron" if is_asked else "schedule")
        await tx.run(queries.record_tick, {**place, "tick": tick, "run": run, "has_run": has_run})
        return Triggered(job=name, period=tick, run=run, is_new=has_run)

    async def _queue(self, tx: Transaction, name: str, workspace_id: UUID | None, origin: str) -> UUID | None:
        task = self._entries[name].task
        if task.per_workspace and workspace_id is None:
            await tx.run(queries.enqueue_for_workspaces, {"task": task.name, "job": name, "origin": origin})
            return None
        return await self._jobs.enqueue(tx, task.name, key=name, workspace_id=workspace_id, origin=origin)

    async def entries(self, tx: Transaction) -> list[Scheduled]:
        """All jobs on the schedule, with when they last came due."""
        now = datetime.now(UTC)
        rows = {row.pop("job"): row for row in await tx.all(queries.list_schedules, last=True)}
        return [
            Scheduled(
                job=name,
                task=entry.task.name,
                cron=entry.clock if entry.is_on else None,
                per_workspace=entry.task.per_workspace,
                next_tick=croniter(entry.clock, now).get_next(datetime) if entry.is_on else None,
                **rows.get(name, {"last_tick": None, "last_run": None}),
            )
            for name, entry in self._entries.items()
        ]

    async def hours(self, tx: Transaction, workspace_id: UUID) -> list[WorkspaceHours]:
        """The jobs for which a workspace keeps its own hours."""
        rows = await tx.all(queries.list_hours_of, {"workspace_id": workspace_id}, last=True)
        return [WorkspaceHours(**row) for row in rows]

    async def set_hours(self, tx: Transaction, workspace_id: UUID, name: str, cron: str) -> WorkspaceHours:
        """Have a job done for a workspace at hours of its own."""
        if not self._entry(name).task.per_workspace:
            raise InvalidInput(f'"{name}" is done for all at once; only the settings say when.')
        parameters = {"workspace_id": workspace_id, "job": name, "cron": valid_cron(cron)}
        return WorkspaceHours(**await tx.one(queries.set_hours, parameters, last=True))

    async def drop_hours(self, tx: Transaction, workspace_id: UUID, name: str) -> None:
        """Back to the hours of the settings."""
        if not await tx.run(queries.drop_hours, {"workspace_id": workspace_id, "job": name}, last=True):
            raise UnknownSchedule("This workspace keeps no hours of its own for that job.")

    def _entry(self, name: str) -> Entry:
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(sorted(self._entries))
            raise UnknownSchedule(f"{UnknownSchedule.title()} There are: {known}.") from None


def _entry(task: Task, name: str, every: str, override: str | None) -> Entry:
    clock = every if override in {None, OFF} else override or every
    try:
        return Entry(task, valid_cron(clock), override != OFF)
    except InvalidCron as error:
        raise Misconfigured(
            f'RECOLLECT_SCHEDULE: "{clock}" for {name} is not a cron expression of five fields, nor "off".'
        ) from error
