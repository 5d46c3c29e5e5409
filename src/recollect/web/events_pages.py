"""The page of events: what has happened, and what happens while one looks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from recollect.db.tenancy import Transaction
from recollect.errors import NotSignedIn
from recollect.events.models import TYPES, Event, matches
from recollect.events.service import Events, queries
from recollect.http.callers import Recollect, caller_of
from recollect.http.paging import Listing, PageQuery
from recollect.kit.paging import InvalidCursor
from recollect.web.pages import page, see_other

PER_PAGE = 50
READ_AT_ONCE = 1_000
# Not for others to act upon, but it is in the log, and so it is shown.
SHOWN_TYPES = (*TYPES, "webhook.changed")

router = APIRouter(include_in_schema=False)


def by_family(types: Sequence[str]) -> dict[str, list[str]]:
    """Types under the pattern that stands for all of their family."""
    families: dict[str, list[str]] = {}
    for each in types:
        families.setdefault(f"{each.partition('.')[0]}.*", []).append(each)
    return families


FAMILIES = by_family(TYPES)


@router.get("/events")
async def events(
    request: Request,
    recollect: Recollect,
    wanted: Annotated[str, Query(alias="type", max_length=100)] = "",
    cursor: Annotated[str | None, Query(max_length=4_400)] = None,
) -> Response:
    if wanted and wanted not in {*FAMILIES, *TYPES}:
        return see_other("/events")
    types = [each for each in SHOWN_TYPES if matches(each, [wanted])] if wanted else None
    try:
        caller = (await caller_of(request)).needing("events:read")
        async with recollect.tenancy.acting_as(caller) as tx:
            me = await recollect.access.me(tx)
            present = await tx.one(queries.present)

            async def fetch(after: list[Any] | None, limit: int) -> list[Event]:
                before = after[0] if after else present["newest"] + 1
                return await _latest(recollect.events, tx, types, range(present["oldest"], before), limit)

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
        families=FAMILIES,
        shown_types=SHOWN_TYPES,
        told=_told,
    )


async def _latest(
    events: Events, tx: Transaction, types: Sequence[str] | None, within: range, limit: int
) -> list[Event]:
    """Events at these positions, the newest first. They are read forwards only, so this goes back by
    stretches: longer ones while there is little in them, shorter ones where there is too much."""
    found: list[Event] = []
    begins, ends, span = within.start, within.stop, READ_AT_ONCE
    while ends > begins and len(found) < limit:
        start = max(begins, ends - span)
        read = await events.list(tx, after=start - 1, types=types, limit=READ_AT_ONCE)
        if len(read) == READ_AT_ONCE and read[-1].position < ends - 1 and ends - start > READ_AT_ONCE:
            span = READ_AT_ONCE
            continue
        found.extend(event for event in reversed(read) if event.position < ends)
        ends, span = start, span * 16
    return found[:limit]


def _told(data: Mapping[str, Any]) -> str:
    """What an event says beside its subject, for people; live.js says it the same way."""
    words = {name: each if isinstance(each, str) else json.dumps(each) for name, each in data.items()}
    return " · ".join(f"{name}: {each}" for name, each in words.items())


def _address(**query: str) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"/events?{urlencode(given)}" if given else "/events"
