"""The page of events: what has happened, and what happens while one looks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from recollect.errors import NotSignedIn
from recollect.events.models import FAMILIES, PATTERNS, TYPES, Event, matches
from recollect.events.service import queries
from recollect.http.callers import Recollect, caller_of
from recollect.http.paging import Listing, PageQuery
from recollect.kit.paging import InvalidCursor
from recollect.web.pages import page, see_other

PER_PAGE = 50

router = APIRouter(include_in_schema=False)


def by_family(types: Sequence[str]) -> dict[str, list[str]]:
    """Types under the pattern that stands for all of their family."""
    return {family: [each for each in types if matches(each, [family])] for family in FAMILIES}


GROUPS = by_family(TYPES)


@router.get("/events")
async def events(
    request: Request,
    recollect: Recollect,
    wanted: Annotated[str, Query(alias="type", max_length=100)] = "",
    cursor: Annotated[str | None, Query(max_length=4_400)] = None,
) -> Response:
    if wanted and wanted not in PATTERNS:
        return see_other("/events")
    try:
        caller = (await caller_of(request)).needing("events:read")
        async with recollect.tenancy.acting_as(caller) as tx:
            me = await recollect.access.me(tx)
            present = await tx.one(queries.present)

            async def fetch(after: list[Any] | None, limit: int) -> list[Event]:
                # What was told since that look at the present comes live, and is not to be here twice.
                before = after[0] if after else present["newest"] + 1
                return await recollect.events.latest(tx, before=before, types=[wanted or "*"], limit=limit)

            listing = Listing[Event](
                recollect.cursors, ("events page", str(me.id), wanted), lambda event: [event.position]
            )
            found = await listing.page(PageQuery(limit=PER_PAGE, cursor=cursor), fetch)
    except NotSignedIn:
        return see_other("/sign-in")
    except InvalidCursor:
        return see_other(_address(type=wanted))
    return page(
        request,
        "events.html",
        me=me,
        events=found["data"],
        older=_address(type=wanted, cursor=found["nextCursor"]) if "nextCursor" in found else None,
        newest_page=_address(type=wanted) if cursor else None,
        newest=present["newest"],
        wanted=wanted,
        families=GROUPS,
        shown_types=TYPES,
        told=_told,
    )


def _told(data: Mapping[str, Any]) -> str:
    """What an event says beside its subject, for people; live.js says it the same way."""
    words = {name: each if isinstance(each, str) else json.dumps(each) for name, each in data.items()}
    return " · ".join(f"{name}: {each}" for name, each in words.items())


def _address(**query: str) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"/events?{urlencode(given)}" if given else "/events"
