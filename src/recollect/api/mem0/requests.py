"""mem0's events: what became of requests that were answered before they were done."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request

from recollect.api.mem0.models import PageNumber, PageSize
from recollect.api.mem0.routing import Reading, new_router, paged
from recollect.api.mem0.shapes import of_request
from recollect.http.callers import Id, Recollect

router = new_router()


@router.get("/v1/event/{event_id}/")
async def get_event(event_id: Id, tx: Reading, recollect: Recollect) -> Any:
    return of_request(await recollect.dialect.request(tx, event_id))


@router.get("/v1/events/")
async def list_events(
    request: Request,
    tx: Reading,
    recollect: Recollect,
    page: Annotated[PageNumber, Query()] = 1,
    page_size: Annotated[PageSize, Query()] = 100,
) -> Any:
    count, found = await recollect.dialect.requests(tx, offset=(page - 1) * page_size, limit=page_size)
    return paged(request, count, page, page_size, [of_request(one) for one in found])
