"""The pages of mail: the caller's messages, and unsubscribing by a link."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import parse_qs
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from pydantic import TypeAdapter, ValidationError
from starlette.responses import Response

from recollect.access.models import Moment
from recollect.db.tenancy import SERVICE, Transaction
from recollect.errors import InvalidInput, NotFound, NotSignedIn
from recollect.http.callers import Id, Recollect, caller_of, services
from recollect.http.paging import Listing, PageQuery
from recollect.kit.paging import InvalidCursor
from recollect.mail.models import Message, Preferences
from recollect.mail.service import UnknownMessage
from recollect.mail.tickets import Ticket, UnknownTicket
from recollect.web.pages import page, see_other

PER_PAGE = 50
_FORM = "application/x-www-form-urlencoded"

router = APIRouter(include_in_schema=False)
_moment: TypeAdapter[datetime] = TypeAdapter(Moment)

Cursor = Annotated[str | None, Query(max_length=4_400)]
Token = Annotated[str, Query(max_length=400)]


@asynccontextmanager
async def _acting(request: Request, needs: str) -> AsyncIterator[Transaction]:
    caller = await caller_of(request)
    async with services(request).tenancy.acting_as(caller.needing(needs)) as tx:
        yield tx


@router.get("/mail")
async def mail(request: Request, recollect: Recollect, cursor: Cursor = None) -> Response:
    try:
        async with _acting(request, "mail:read") as tx:
            me = await recollect.access.me(tx)
            unread = await recollect.mail.unread(tx)
            muted = (await recollect.mail.preferences(tx)).muted

            async def fetch(after: list[Any] | None, limit: int) -> list[Message]:
                before = (datetime.fromisoformat(after[0]), UUID(after[1])) if after else None
                return await recollect.mail.messages(tx, before=before, limit=limit)

            listing = Listing[Message](
                recollect.cursors,
                ("mail page", str(me.id)),
                lambda message: [message.created_at.isoformat(), str(message.id)],
            )
            found = await listing.page(PageQuery(limit=PER_PAGE, cursor=cursor), fetch)
    except NotSignedIn:
        return see_other("/sign-in")
    except InvalidCursor:
        return see_other("/mail")
    return page(
        request,
        "mail.html",
        me=me,
        unread=unread,
        muted=muted,
        messages=found["data"],
        older=found.get("nextCursor"),
        can_send=recollect.mail.can_send,
    )


@router.post("/mail/read")
async def mark_all_read(
    request: Request, recollect: Recollect, until: Annotated[str, Form(max_length=50)]
) -> Response:
    try:
        moment = _moment.validate_python(until)
    except ValidationError as error:
        raise InvalidInput("until: a date and time such as 2030-01-31T12:00:00Z.") from error
    try:
        async with _acting(request, "mail:write") as tx:
            await recollect.mail.mark_all_read(tx, moment)
    except NotSignedIn:
        return see_other("/sign-in")
    return see_other("/mail")


@router.post("/mail/preferences")
async def choose(
    request: Request,
    recollect: Recollect,
    kind: Annotated[str, Form(max_length=100)],
    muted: Annotated[bool, Form()],
) -> Response:
    try:
        async with _acting(request, "mail:write") as tx:
            before = set((await recollect.mail.preferences(tx)).muted)
            wanted = before | {kind} if muted else before - {kind}
            await recollect.mail.set_preferences(tx, Preferences(muted=sorted(wanted)))
    except NotSignedIn:
        return see_other("/sign-in")
    except ValidationError as error:
        raise InvalidInput("kind: none of those that messages have.") from error
    return see_other("/mail")


@router.post("/mail/{message_id}/read")
async def mark_read(request: Request, recollect: Recollect, message_id: Id) -> Response:
    return await _change(request, message_id, recollect.mail.mark_read)


@router.post("/mail/{message_id}/delete")
async def delete(request: Request, recollect: Recollect, message_id: Id) -> Response:
    return await _change(request, message_id, recollect.mail.delete)


async def _change(
    request: Request, message_id: UUID, change: Callable[[Transaction, UUID], Awaitable[object]]
) -> Response:
    try:
        async with _acting(request, "mail:write") as tx:
            await change(tx, message_id)
    except NotSignedIn:
        return see_other("/sign-in")
    except UnknownMessage:
        pass  # deleted in another window: the list shows it
    return see_other("/mail")


@router.get("/unsubscribe")
async def unsubscribe_page(request: Request, recollect: Recollect, token: Token = "") -> Response:
    """Changes nothing: programs that look at links in e-mails come here too."""
    try:
        return await _choices(request, token, recollect.mail.ticket(token))
    except UnknownTicket as error:
        return page(request, "unsubscribe.html", status=error.status, problem=error.detail)


@router.post("/unsubscribe")
async def unsubscribe(request: Request, recollect: Recollect, token: Token = "") -> Response:
    """The page's buttons, and the one-click request of mail programs (RFC 8058): not signed in, from
    anywhere, as either kind of form. Whatever they send, the address says what is meant."""
    try:
        ticket = recollect.mail.ticket(token)
        chosen = await _chosen(request)
        meant = ticket.for_all() if "everything" in chosen else ticket
        async with recollect.tenancy.acting_as(SERVICE) as tx:
            if "undo" in chosen:
                await recollect.mail.resubscribe(tx, meant)
            else:
                await recollect.mail.unsubscribe(tx, meant)
        return await _choices(request, token, ticket)
    except UnknownTicket as error:
        return page(request, "unsubscribe.html", status=error.status, problem=error.detail)
    except NotFound:
        return page(request, "unsubscribe.html", status=404, problem="That account is gone.")


async def _chosen(request: Request) -> set[str]:
    """The names of the fields that a button of ours has sent; none of a form that cannot be ours."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != _FORM:
        return set()
    try:
        return set(parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=10))
    except ValueError:  # too many fields
        return set()


async def _choices(request: Request, token: str, ticket: Ticket) -> Response:
    recollect = services(request)
    async with recollect.tenancy.acting_as(SERVICE) as tx:
        is_muted = await recollect.mail.is_unsubscribed(tx, ticket)
        all_muted = await recollect.mail.is_unsubscribed(tx, ticket.for_all())
    return page(
        request,
        "unsubscribe.html",
        token=token,
        ticket=ticket,
        is_muted=is_muted,
        all_muted=all_muted,
    )
