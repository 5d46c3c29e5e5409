"""Messages to the caller, and what of them goes out by e-mail."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query

from recollect.db.tenancy import Transaction
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, transaction
from recollect.kit.paging import InvalidCursor
from recollect.mail.models import Message, Preferences

router = APIRouter(tags=["mail"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("mail:read")]
Writing = Annotated[Transaction, transaction("mail:write")]
MessageId = Annotated[Id, Path(alias="messageId")]


@router.get(
    "/api/mail/messages",
    summary="List the caller's messages, newest first.",
    response_model=Page[Message],
    response_model_exclude_unset=True,
)
async def list_messages(wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    def position(message: Message) -> list[str]:
        return [message.created_at.isoformat(), str(message.id), str(tx.principal.user_id)]

    async def fetch(after: list[Any] | None, limit: int) -> list[Message]:
        before = (datetime.fromisoformat(after[0]), UUID(after[1])) if after else None
        messages = await recollect.mail.messages(tx, before=before, limit=limit)
        # The address does not name the caller; who it is comes with the rows.
        if after and after[2] != str(tx.principal.user_id):
            raise InvalidCursor
        return messages

    listing = Listing[Message](recollect.cursors, ("mail",), position)
    return await listing.page(wanted, fetch)


@router.post(
    "/api/mail/messages/{messageId}/read",
    summary="Mark a message as read.",
    response_model=Message,
    responses=responses(404),
)
async def mark_read(message_id: MessageId, tx: Writing, recollect: Recollect) -> Any:
    return await recollect.mail.mark_read(tx, message_id)


@router.delete(
    "/api/mail/messages/{messageId}",
    summary="Delete a message.",
    status_code=204,
    responses=responses(404),
)
async def delete_message(message_id: MessageId, tx: Writing, recollect: Recollect) -> None:
    await recollect.mail.delete(tx, message_id)


@router.get(
    "/api/mail/preferences",
    summary="Read what the caller wants no e-mail about.",
    response_model=Preferences,
)
async def get_preferences(tx: Reading, recollect: Recollect) -> Any:
    return await recollect.mail.preferences(tx)


@router.put(
    "/api/mail/preferences",
    summary="Say what the caller wants no e-mail about; it stays in the list of messages.",
    response_model=Preferences,
    responses=responses(409),
)
async def put_preferences(wanted: Preferences, tx: Writing, recollect: Recollect) -> Any:
    return await recollect.mail.set_preferences(tx, wanted)
