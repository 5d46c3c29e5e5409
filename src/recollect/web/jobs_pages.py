"""The pages of jobs: which there are, how far they are, how they ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, get_args
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from recollect.access.models import Me
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Transaction
from recollect.errors import Conflict, NotAllowed, NotFound, NotSignedIn
from recollect.http.callers import Id, Recollect, caller_of, services
from recollect.http.paging import Listing, PageQuery
from recollect.jobs.models import Run, State
from recollect.jobs.service import UnknownJob
from recollect.kit.paging import InvalidCursor
from recollect.web.pages import page, see_other

PER_PAGE = 50
STATES: tuple[State, ...] = get_args(State)

router = APIRouter(include_in_schema=False)

Cursor = Annotated[str | None, Query(max_length=4_400)]
Change = Callable[[Transaction, UUID], Awaitable[Run]]


@asynccontextmanager
async def _acting(
    request: Request, needs: str, *, for_all: bool = False
) -> AsyncIterator[tuple[Transaction, Me]]:
    """The caller's transaction; where an admin looks at everybody's jobs, the service's."""
    recollect = services(request)
    caller = await caller_of(request)
    async with recollect.tenancy.acting_as(caller.needing(needs)) as tx:
        me = await recollect.access.me(tx)
        if not for_all:
            yield tx, me
            return
    if not me.is_admin:
        raise NotAllowed("Only admins look at everybody's jobs.")
    async with recollect.tenancy.acting_as(SERVICE) as own:
        yield own, me


@router.get("/jobs")
async def jobs(
    request: Request,
    recollect: Recollect,
    state: State | None = None,
    task: Annotated[str | None, Query(max_length=128)] = None,
    everybody: bool = False,
    cursor: Cursor = None,
) -> Response:
    filters = {"everybody": "true" if everybody else "", "task": task or "", "state": state or ""}
    try:
        async with _acting(request, "jobs:read", for_all=everybody) as (tx, me):
            counts = await recollect.jobs.counts(tx)

            async def fetch(after: list[Any] | None, limit: int) -> list[Run]:
                before = (datetime.fromisoformat(after[0]), UUID(after[1])) if after else None
                return await recollect.jobs.list(tx, state=state, task=task, before=before, limit=limit)

            listing = Listing[Run](
                recollect.cursors,
                ("jobs page", str(me.id), *filters.values()),
                lambda run: [run.created_at.isoformat(), str(run.id)],
            )
            found = await listing.page(PageQuery(limit=PER_PAGE, cursor=cursor), fetch)
    except NotSignedIn:
        return see_other("/sign-in")
    except InvalidCursor:
        return see_other(_address(**filters))
    return page(
        request,
        "jobs.html",
        me=me,
        runs=found["data"],
        older=_address(**filters, cursor=found["nextCursor"]) if "nextCursor" in found else None,
        counts=counts,
        states=STATES,
        state=state,
        task=task,
        everybody=everybody,
        address=lambda **changed: _address(**{**filters, **changed}),
        lasted=lasted,
    )


@router.get("/jobs/{job_id}")
async def job(request: Request, recollect: Recollect, job_id: Id) -> Response:
    try:
        async with _acting(request, "jobs:read") as (tx, me):
            run = await _find(recollect, tx, me, job_id)
    except NotSignedIn:
        return see_other("/sign-in")
    return _job_page(request, me, run)


@router.post("/jobs/{job_id}/cancel")
async def cancel(request: Request, recollect: Recollect, job_id: Id) -> Response:
    return await _change(request, job_id, recollect.jobs.cancel)


@router.post("/jobs/{job_id}/retry")
async def retry(request: Request, recollect: Recollect, job_id: Id) -> Response:
    return await _change(request, job_id, recollect.jobs.retry)


async def _find(recollect: Services, tx: Transaction, me: Me, job_id: UUID) -> Run | None:
    try:
        return await recollect.jobs.get(tx, job_id)
    except UnknownJob:
        if not me.is_admin:
            return None
    try:
        async with recollect.tenancy.acting_as(SERVICE) as own:
            return await recollect.jobs.get(own, job_id)
    except UnknownJob:
        return None


async def _change(request: Request, job_id: UUID, change: Change) -> Response:
    """Do it, and show the job; or show the job and why not."""
    try:
        async with _acting(request, "jobs:write") as (tx, me):
            if not me.is_admin:
                await change(tx, job_id)
        if me.is_admin:
            async with services(request).tenancy.acting_as(SERVICE) as own:
                await change(own, job_id)
    except NotSignedIn:
        return see_other("/sign-in")
    except (Conflict, NotFound) as refusal:
        async with _acting(request, "jobs:read") as (tx, me):
            run = await _find(services(request), tx, me, job_id)
        return _job_page(request, me, run, problem=refusal.detail, status=refusal.status)
    return see_other(f"/jobs/{job_id}")


def _job_page(
    request: Request, me: Me, run: Run | None, *, problem: str | None = None, status: int = 200
) -> Response:
    status = 404 if run is None else status
    return page(
        request,
        "job.html",
        status=status,
        me=me,
        run=run,
        problem=problem,
        lasted=lasted,
        # Not Jinja's, which writes it for scripts: "don\u0027t".
        json=lambda arguments: json.dumps(arguments, ensure_ascii=False),
    )


def _address(**query: str) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"/jobs?{urlencode(given)}" if given else "/jobs"


def lasted(began: datetime | None, ended: datetime | None) -> str:
    """How long something took, or has taken up to now, in words."""
    if began is None:
        return ""
    taken = max((ended or datetime.now(UTC)) - began, timedelta())
    seconds = taken.total_seconds()
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
