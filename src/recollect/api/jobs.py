"""Jobs: how far they are, stopping them, trying them again; and when the scheduled ones come due."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from recollect.bootstrap import Services
from recollect.db.tenancy import Transaction
from recollect.http.callers import Id, Recollect, as_service
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction
from recollect.jobs.models import Run, State
from recollect.jobs.schedule import Scheduled, WorkspaceHours
from recollect.kit.paging import InvalidCursor
from recollect.kit.text import Text

router = APIRouter(tags=["jobs"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("jobs:read")]
Writing = Annotated[Transaction, transaction("jobs:write")]
Administering = Annotated[Transaction, transaction("admin")]
JobId = Annotated[Id, Path(alias="jobId")]
WorkspaceId = Annotated[Id, Path(alias="workspaceId")]
ScheduledJob = Annotated[Text, Path(alias="job", min_length=1, max_length=128)]


class JobQuery(PageQuery):
    state: Annotated[State | None, Field(description="Only those in this state.")] = None
    task: Annotated[
        Text | None, Field(min_length=1, max_length=128, description="Only those of this task.")
    ] = None


class JobCounts(BaseModel):
    """How many jobs there are in each state."""

    waiting: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0


class Hours(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cron: Annotated[
        Text,
        StringConstraints(min_length=9, max_length=200),
        Field(description="Minute, hour, day, month and day of the week, in UTC.", examples=["30 3 * * *"]),
    ]


@router.get(
    "/api/jobs",
    summary="List the caller's jobs and those of the caller's workspaces, the newest first.",
    response_model=Page[Run],
    response_model_exclude_unset=True,
)
async def list_jobs(wanted: Annotated[JobQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    def position(run: Run) -> list[str]:
        return [*_place(run), str(tx.principal.user_id)]

    async def fetch(after: list[Any] | None, limit: int) -> list[Run]:
        found = await _fetch(recollect, tx, wanted, after, limit)
        # The address does not name the caller; who it is comes with the rows.
        if after and after[2] != str(tx.principal.user_id):
            raise InvalidCursor
        return found

    return await Listing[Run](recollect.cursors, _name("jobs", wanted), position).page(wanted, fetch)


@router.get("/api/jobs/counts", summary="Count the jobs in each state.", response_model=JobCounts)
async def count_jobs(tx: Reading, recollect: Recollect) -> Any:
    return await recollect.jobs.counts(tx)


@router.get("/api/jobs/{jobId}", summary="Read one job.", response_model=Run, responses=responses(404))
async def get_job(job_id: JobId, tx: Reading, recollect: Recollect) -> Any:
    return await recollect.jobs.get(tx, job_id)


@router.post(
    "/api/jobs/{jobId}/cancel",
    summary="Stop a job, or take it out of the queue (its user; owners and admins of its workspace).",
    response_model=Run,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def cancel_job(job_id: JobId, tx: Writing, recollect: Recollect) -> Any:
    return await recollect.jobs.cancel(tx, job_id)


@router.post(
    "/api/jobs/{jobId}/retry",
    summary="Queue a job again that failed or was cancelled (its user; owners and admins of its workspace).",
    status_code=202,
    response_model=Run,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def retry_job(job_id: JobId, tx: Writing, recollect: Recollect) -> Any:
    return await recollect.jobs.retry(tx, job_id)


# Everybody's and the service's own, for admins


@router.get(
    "/api/admin/jobs",
    summary="List everybody's jobs and the service's own, the newest first (admins).",
    response_model=Page[Run],
    response_model_exclude_unset=True,
)
async def list_all_jobs(wanted: Annotated[JobQuery, Query()], tx: Administering, recollect: Recollect) -> Any:
    async def fetch(after: list[Any] | None, limit: int) -> list[Run]:
        async with as_service(tx, recollect) as own:
            return await _fetch(recollect, own, wanted, after, limit)

    return await Listing[Run](recollect.cursors, _name("jobs, all", wanted), _place).page(wanted, fetch)


@router.get(
    "/api/admin/jobs/counts",
    summary="Count everybody's jobs in each state (admins).",
    response_model=JobCounts,
)
async def count_all_jobs(tx: Administering, recollect: Recollect) -> Any:
    async with as_service(tx, recollect) as own:
        return await recollect.jobs.counts(own)


@router.get(
    "/api/admin/jobs/{jobId}",
    summary="Read anybody's job (admins).",
    response_model=Run,
    responses=responses(404),
)
async def get_any_job(job_id: JobId, tx: Administering, recollect: Recollect) -> Any:
    async with as_service(tx, recollect) as own:
        return await recollect.jobs.get(own, job_id)


@router.post(
    "/api/admin/jobs/{jobId}/cancel",
    summary="Stop anybody's job, or take it out of the queue (admins).",
    response_model=Run,
    responses=responses(404, 409),
)
async def cancel_any_job(job_id: JobId, tx: Administering, recollect: Recollect) -> Any:
    async with as_service(tx, recollect) as own:
        return await recollect.jobs.cancel(own, job_id)


@router.post(
    "/api/admin/jobs/{jobId}/retry",
    summary="Queue anybody's job again that failed or was cancelled (admins).",
    status_code=202,
    response_model=Run,
    responses=responses(404, 409),
)
async def retry_any_job(job_id: JobId, tx: Administering, recollect: Recollect) -> Any:
    async with as_service(tx, recollect) as own:
        return await recollect.jobs.retry(own, job_id)


# The schedule


@router.get(
    "/api/schedule",
    summary="List the scheduled jobs, with when they come due (admins).",
    response_model=Page[Scheduled],
    response_model_exclude_unset=True,
)
async def list_schedule(tx: Administering, recollect: Recollect) -> Any:
    async with as_service(tx, recollect) as own:
        return {"data": await recollect.schedule.entries(own)}


@router.get(
    "/api/workspaces/{workspaceId}/schedule",
    summary="List the scheduled jobs for which a workspace keeps its own hours.",
    response_model=Page[WorkspaceHours],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_hours(workspace_id: WorkspaceId, tx: Reading, recollect: Recollect) -> Any:
    await recollect.membership.workspace(tx, workspace_id)
    return {"data": await recollect.schedule.hours(tx, workspace_id)}


@router.put(
    "/api/workspaces/{workspaceId}/schedule/{job}",
    summary="Have a scheduled job done for a workspace at its own hours (owners and admins).",
    response_model=WorkspaceHours,
    responses=responses(404, 409),
)
async def set_hours(
    workspace_id: WorkspaceId, job: ScheduledJob, wanted: Hours, tx: Writing, recollect: Recollect
) -> Any:
    await recollect.membership.workspace(tx, workspace_id)
    return await recollect.schedule.set_hours(tx, workspace_id, job, wanted.cron)


@router.delete(
    "/api/workspaces/{workspaceId}/schedule/{job}",
    summary="Have a scheduled job done for a workspace at the same hours as for all (owners and admins).",
    status_code=204,
    responses=responses(404),
)
async def drop_hours(workspace_id: WorkspaceId, job: ScheduledJob, tx: Writing, recollect: Recollect) -> None:
    await recollect.membership.workspace(tx, workspace_id)
    await recollect.schedule.drop_hours(tx, workspace_id, job)


def _name(listing: str, wanted: JobQuery) -> tuple[str, ...]:
    return (listing, wanted.state or "", wanted.task or "")


def _place(run: Run) -> list[str]:
    return [run.created_at.isoformat(), str(run.id)]


async def _fetch(
    recollect: Services, tx: Transaction, wanted: JobQuery, after: list[Any] | None, limit: int
) -> list[Run]:
    before = (datetime.fromisoformat(after[0]), UUID(after[1])) if after else None
    return await recollect.jobs.list(tx, state=wanted.state, task=wanted.task, before=before, limit=limit)
