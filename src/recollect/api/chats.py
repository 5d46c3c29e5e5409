"""Chat histories: what applications bring, what is kept of it, and who agrees to its analysis."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field, StrictBool, StringConstraints

from recollect.access.models import Model, Moment
from recollect.api.memories import InWorkspace
from recollect.db.tenancy import Transaction
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction
from recollect.kit.paging import InvalidCursor
from recollect.kit.text import Text
from recollect.rules.chats.messages import from_application
from recollect.rules.chats.models import Chat
from recollect.rules.histories.models import Consent, History, HistoryTurn, Imported, RuleSettings

MAX_CHATS = 100
MAX_MESSAGES = 10_000
HOW = "API"

router = APIRouter(tags=["chats"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("rules:read")]
Writing = Annotated[Transaction, transaction("rules:write")]
ChatId = Annotated[Id, Path(alias="chatId")]
WorkspaceId = Annotated[Id, Path(alias="workspaceId")]
Named = Annotated[Text, StringConstraints(min_length=1, max_length=500)]


class NewMessage(Model):
    """One message, as the APIs of models have them."""

    role: Literal["user", "assistant", "system", "developer", "tool"]
    content: Annotated[
        Text | list[dict[str, Any]],
        Field(
            description="Text, or blocks of which the text is taken. Only users and assistants say something."
        ),
    ]
    at: Annotated[
        Moment | None, Field(description="When it was said; the same words at another time are said again.")
    ] = None


class NewChat(Model):
    session: Annotated[Named, Field(description="Which conversation it is. Sent again, it adds what is new.")]
    messages: Annotated[list[NewMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    project: Annotated[Named | None, Field(description="The folder or repository that it is about.")] = None
    title: Named | None = None
    author: Named | None = None

    @property
    def parts(self) -> list[Chat]:
        messages = [message.model_dump(mode="json", exclude_none=True) for message in self.messages]
        told = from_application(
            self.session, messages, project=self.project, title=self.title, author=self.author
        )
        return list(told)


class NewChats(Model):
    """Conversations to keep. Secrets in them are masked first."""

    chats: Annotated[list[NewChat], Field(min_length=1, max_length=MAX_CHATS)]
    workspace_id: InWorkspace = None
    project_id: Annotated[Id | None, Field(description="A project of the workspace.")] = None


class ChatQuery(PageQuery):
    workspace_id: Annotated[Id | None, Field(description="Those in a workspace; none: all.")] = None


class ChatPage(Page[HistoryTurn]):
    """A chat, and one page of its turns."""

    chat: History


class Said(Model):
    """What the caller says to the analysis of their chats."""

    granted: StrictBool
    workspace_id: InWorkspace = None


class Consents(BaseModel):
    data: list[Consent]


class NewRuleSettings(RuleSettings):
    consent: Literal["author", "workspace"]


@router.post(
    "/api/chats",
    summary="Keep conversations, with secrets masked; what is here already is not kept twice.",
    response_model=Imported,
    responses=responses(404),
    dependencies=[idempotent],
)
async def add_chats(wanted: NewChats, tx: Writing, recollect: Recollect) -> Any:
    user_id = await recollect.histories.author(tx)
    # Off the event loop: what is cut short is masked first, and masking a megabyte takes a while.
    parts = await asyncio.to_thread(lambda: [each.parts for each in wanted.chats])
    imported = await recollect.histories.add(
        tx,
        user_id,
        [part for each in parts for part in each],
        workspace=wanted.workspace_id,
        project=wanted.project_id,
    )
    ids = iter(imported.ids)
    imported.ids = [next((found for _ in each if (found := next(ids))), None) for each in parts]
    return imported


@router.get(
    "/api/chats",
    summary="List the caller's chats; those that got turns last come first.",
    response_model=Page[History],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_chats(wanted: Annotated[ChatQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    user_id = await recollect.histories.author(tx)
    if wanted.workspace_id is not None:
        await recollect.membership.workspace(tx, wanted.workspace_id)

    async def fetch(after: list[Any] | None, limit: int) -> list[History]:
        if after and after[2] != str(user_id):
            raise InvalidCursor
        place = (after[0], after[1]) if after else None
        found = recollect.histories.list(tx, user_id, workspace=wanted.workspace_id, after=place, limit=limit)
        return list(await found)

    def position(chat: History) -> list[str]:
        return [chat.imported_at.isoformat(), str(chat.id), str(user_id)]

    name = ("chats", str(wanted.workspace_id or ""))
    return await Listing[History](recollect.cursors, name, position).page(wanted, fetch)


@router.get(
    "/api/chats/consent",
    summary="Tell what the caller has said to the analysis of their chats.",
    response_model=Consents,
)
async def list_consents(tx: Reading, recollect: Recollect) -> Any:
    user_id = await recollect.histories.author(tx)
    return {"data": await recollect.histories.consents(tx, user_id)}


@router.put(
    "/api/chats/consent",
    summary="Agree that rules are learnt from the caller's chats, or no longer.",
    response_model=Consent,
    responses=responses(404),
)
async def say_consent(wanted: Said, tx: Writing, recollect: Recollect) -> Any:
    user_id = await recollect.histories.author(tx)
    return await recollect.histories.consent(tx, user_id, wanted.granted, wanted.workspace_id, how=HOW)


@router.get(
    "/api/chats/{chatId}",
    summary="Read a chat and its turns.",
    response_model=ChatPage,
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def get_chat(
    chat_id: ChatId, wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    user_id = await recollect.histories.author(tx)
    chat = await recollect.histories.get(tx, user_id, chat_id)

    async def fetch(after: list[Any] | None, limit: int) -> list[HistoryTurn]:
        number = after[0] if after else -1
        return list(await recollect.histories.turns(tx, user_id, chat_id, after=number, limit=limit))

    listing = Listing[HistoryTurn](recollect.cursors, ("turns", str(chat_id)), lambda turn: [turn.number])
    return {"chat": chat, **await listing.page(wanted, fetch)}


@router.delete(
    "/api/chats/{chatId}",
    summary="Forget a chat and all that was said in it.",
    status_code=204,
    responses=responses(404),
)
async def delete_chat(chat_id: ChatId, tx: Writing, recollect: Recollect) -> None:
    user_id = await recollect.histories.author(tx)
    await recollect.histories.delete(tx, user_id, chat_id)


@router.get(
    "/api/workspaces/{workspaceId}/rules/settings",
    summary="Tell whose agreement it takes to learn rules from chats in a workspace.",
    response_model=RuleSettings,
    responses=responses(404),
)
async def get_settings(workspace_id: WorkspaceId, tx: Reading, recollect: Recollect) -> Any:
    return await recollect.histories.settings(tx, workspace_id)


@router.put(
    "/api/workspaces/{workspaceId}/rules/settings",
    summary="Say whose agreement it takes to learn rules from chats in a workspace (owners and admins).",
    response_model=RuleSettings,
    responses=responses(404),
)
async def change_settings(
    workspace_id: WorkspaceId, wanted: NewRuleSettings, tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.histories.change_settings(tx, workspace_id, wanted.consent)
