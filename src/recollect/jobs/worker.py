"""The worker: fetches jobs and does them, on any number of machines, until it is told to stop."""

from __future__ import annotations

import asyncio
import random
import traceback
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import procrastinate
from procrastinate.job_context import AbortReason
from procrastinate.retry import BaseRetryStrategy, RetryDecision

from recollect.db.tenancy import SERVICE, Tenancy
from recollect.errors import RecollectError, Superseded
from recollect.jobs.engine import PACE, FencedManager, Pace, log, open_engine
from recollect.jobs.models import GiveUp, Job, Task, TryLater, queries
from recollect.kit.loops import CANCELLED_AGAIN_AFTER, for_ever, stop

DEATHS = 10
"""How many workers may die over a job before it is put aside, if it may not fail more often anyway."""


class UnknownTask(RecollectError):
    """No worker here knows that task."""

    code = "unknown_task"


class Again(Exception):
    """Tells the engine to give the job back to the queue until then."""

    def __init__(self, at: datetime | None = None) -> None:
        super().__init__()
        self.at = at or datetime.now(UTC)


class _GiveBack(BaseRetryStrategy):
    def get_retry_decision(
        self, *, exception: BaseException, job: procrastinate.jobs.Job
    ) -> RetryDecision | None:
        del job
        return RetryDecision(retry_at=exception.at) if isinstance(exception, Again) else None


class Worker:
    """Does the jobs of all tenants. ``beside`` are loops that run as long as it does."""

    def __init__(
        self,
        tenancy: Tenancy,
        conninfo: str,
        tasks: dict[str, Task],
        concurrency: int,
        beside: Sequence[Callable[[], Awaitable[None]]] = (),
        pace: Pace = PACE,
    ) -> None:
        self._tenancy = tenancy
        self._conninfo = conninfo
        self._tasks = tasks
        self._concurrency = concurrency
        self._beside = beside
        self._pace = pace

    async def work(self) -> None:
        """Until cancelled; then it lets running jobs end for a moment, and gives back what has not."""
        loops = [asyncio.create_task(for_ever(loop)) for loop in (self._fetch, *self._beside)]
        try:
            await asyncio.wait(loops)
        finally:
            # Once, since the second time does not let jobs end; but a cancellation can get lost. Sooner than
            # whoever stops us does it again, and later than running jobs are waited for, and recorded.
            await stop(*loops, again_after=0.8 * CANCELLED_AGAIN_AFTER)

    async def _fetch(self) -> None:
        async with open_engine(self._conninfo, self._concurrency, self._pace) as (app, manager):

            @app.task(name="run", pass_context=True, retry=_GiveBack())
            async def perform(context: procrastinate.JobContext, run: str) -> None:
                del run  # its record came along with the ticket
                await self._perform(manager, context)

            async with asyncio.TaskGroup() as group:
                sweeping = group.create_task(manager.sweep())
                await app.run_worker_async(
                    concurrency=self._concurrency,
                    install_signal_handlers=False,
                    fetch_job_polling_interval=self._pace.poll,
                    shutdown_graceful_timeout=self._pace.stop,
                    update_heartbeat_interval=self._pace.heartbeat,
                    stalled_worker_timeout=self._pace.stalled_after,
                )
                sweeping.cancel()

    async def _perform(self, manager: FencedManager, context: procrastinate.JobContext) -> None:
        ticket = context.job.id
        assert ticket is not None  # noqa: S101 - it was fetched
        run = manager.begun(ticket)
        if run is None:
            return  # cancelled, or done before its worker could say so
        job = Job(**run, tenancy=self._tenancy)
        try:
            await self._do(job)
        except asyncio.CancelledError:
            reason = context.abort_reason()
            if reason is AbortReason.SHUTDOWN:
                await self._release(job)
                raise Again from None
            if reason is None:
                # Not by us: something in the task was cancelled, and it let that pass.
                await self._fail(job, RuntimeError("cancelled"))
                return
            raise
        except Superseded:
            log.info("job superseded", job=str(job.id), task=job.task)
        except Again:
            raise
        except Exception as error:
            log.warning("job interrupted", job=str(job.id), error=type(error).__qualname__)
            raise Again(_in(self._pace.first_retry)) from error
        if job.is_finished:
            manager.is_gone(ticket)

    async def _do(self, job: Job) -> None:
        try:
            counts = await self._task_for(job).run(job)
            if not job.is_finished:
                async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                    await job.finish(tx, counts)
        except Superseded:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a task raises becomes its record
            await self._fail(job, error)
        else:
            log.info("job done", job=str(job.id), task=job.task, attempt=job.attempt)

    def _task_for(self, job: Job) -> Task:
        task = self._tasks.get(job.task)
        if task is None:
            # Perhaps a newer worker knows it: it is tried like any other.
            raise UnknownTask(f'No worker here knows the task "{job.task}".')
        if task.for_service_only and job.user_id is not None:
            raise GiveUp("This is for the server itself to do.")
        # Most that were at work when it died had nothing to do with it, hence the patience.
        if job.attempt - job.failed > max(DEATHS, task.attempts):
            raise GiveUp("Its worker died each time.")
        return task

    async def _fail(self, job: Job, error: Exception) -> None:
        task = self._tasks.get(job.task)
        at = self._next_attempt(job, error, task.attempts if task else Task.attempts)
        reason = _told(error)
        log.warning("job failed", job=str(job.id), task=job.task, attempt=job.attempt, error=reason, again=at)
        parameters = {
            "id": job.id,
            "fence": job.fence,
            "error": reason,
            "at": at,
            "uncounted": int(isinstance(error, TryLater)),
        }
        try:
            async with self._tenancy.acting_as(SERVICE) as tx:
                row = await tx.maybe(queries.fail_run, parameters)
                if row is not None and at is None:
                    await tx.run(queries.publish_failure, {**row, "error": reason})
        except Exception as trouble:  # noqa: BLE001 - whatever it is, the job must not get lost by it
            # Its record says "running" still, and whoever fetches it next goes on from there.
            log.warning("failure not recorded", job=str(job.id), error=type(trouble).__qualname__)
            at = _in(self._pace.first_retry)
        if at is not None:
            raise Again(at)

    def _next_attempt(self, job: Job, error: Exception, attempts: int) -> datetime | None:
        """When to try again; None: never."""
        if isinstance(error, TryLater):
            return _in(error.after.total_seconds())
        if isinstance(error, GiveUp) or job.failed + 1 >= attempts:
            return None
        seconds = min(self._pace.first_retry * 3**job.failed, self._pace.longest_retry)
        # Jobs that failed together must not come back together.
        return _in(seconds * random.uniform(0.5, 1.0))  # noqa: S311 - nobody gains by guessing it

    async def _release(self, job: Job) -> None:
        try:
            async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                await tx.run(queries.release_run, {"id": job.id, "fence": job.fence}, last=True)
        except Exception as error:  # noqa: BLE001 - it is given back in any case, and taken over then
            log.warning("job not released", job=str(job.id), error=type(error).__qualname__)


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def _told(error: BaseException) -> str:
    """What people are told: our own sentences, and of others' errors only their kind and place, since their
    text may quote what is private."""
    if isinstance(error, RecollectError | GiveUp | TryLater):
        # Postgres takes neither NUL nor half a character.
        return str(error).replace("\0", "").encode(errors="replace").decode()
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__qualname__}{place}"
