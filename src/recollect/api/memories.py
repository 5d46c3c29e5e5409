"""Memories: adding them, finding them, changing them, and how they came to be as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, BeforeValidator, Field

from recollect.access.roles import RoleTooLow
from recollect.api.memory_models import (
    About,
    Because,
    MemoryChange,
    NewFeedback,
    NewMemory,
    Search,
    WantedContext,
    read_filters,
)
from recollect.bootstrap import Services
from recollect.db.tenancy import Transaction
from recollect.engine.models import (
    Added,
    Context,
    EntityInUse,
    Found,
    Link,
    Memory,
    Reason,
    UnknownMemory,
    Version,
    Where,
)
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction
from recollect.kit.paging import InvalidCursor
from recollect.kit.text import Text

router = APIRouter(tags=["memories"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("memory:read")]
Writing = Annotated[Transaction, transaction("memory:write")]
MemoryId = Annotated[Id, Path(alias="memoryId")]


def _true_or_false(given: object) -> object:
    # Pydantic also reads "yes", "on" and "1" as true.
    if isinstance(given, bool) or given in {"true", "false"}:
        return given
    raise ValueError("true or false")


Flag = Annotated[bool, BeforeValidator(_true_or_false)]
InWorkspace = Annotated[Id | None, Field(description="Those of a workspace; none: the caller's own.")]


class MemoryQuery(About, PageQuery):
    workspace: InWorkspace = None
    expired: Annotated[Flag, Field(description="Also what has expired.")] = False
    superseded: Annotated[Flag, Field(description="Also what newer facts have replaced.")] = False
    filters: Annotated[
        Text | None, Field(max_length=20_000, description="As for a search, written as JSON.")
    ] = None

    @property
    def where(self) -> Where:
        filters = read_filters(self.filters)
        return Where(self.entities, self.workspace, filters, self.expired, self.superseded)


class EntityQuery(PageQuery):
    workspace: InWorkspace = None


class ManyMemories(About):
    workspace: InWorkspace = None
    everything: Annotated[
        Flag, Field(alias="all", description="Delete without naming whom they are about.")
    ] = False
    reason: Reason | None = None


class Deleted(BaseModel):
    deleted: int


@router.post(
    "/api/memories",
    summary="Remember a text or a conversation: as it was said, or the facts in it.",
    description="The same request again adds nothing; each result says whether it is new.",
    response_model=Added,
    responses=responses(404, 409, 429),
)
async def add_memories(wanted: NewMemory, tx: Writing, recollect: Recollect) -> Any:
    wanted.entities.named()
    await _may_write(tx, recollect, wanted.workspace)
    return await recollect.engine.add(tx, wanted.addition)


@router.get(
    "/api/memories",
    summary="List memories, the newest first.",
    response_model=Page[Memory],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_memories(wanted: Annotated[MemoryQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    where = wanted.where

    def position(memory: Memory) -> list[str]:
        return [memory.created_at.isoformat(), str(memory.id), str(tx.principal.user_id)]

    async def fetch(after: list[Any] | None, limit: int) -> list[Memory]:
        await _is_there(tx, recollect, wanted.workspace)
        place = (datetime.fromisoformat(after[0]), UUID(after[1])) if after else None
        found = await recollect.engine.list(tx, where, after=place, limit=limit)
        # The address does not name the caller; who it is comes with the rows.
        if after and after[2] != str(tx.principal.user_id):
            raise InvalidCursor
        return found

    name = ("memories", wanted.model_dump_json(exclude={"cursor", "limit"}))
    return await Listing[Memory](recollect.cursors, name, position).page(wanted, fetch)


@router.delete(
    "/api/memories",
    summary="Delete all memories about somebody, expired and superseded ones included.",
    response_model=Deleted,
    responses=responses(404),
)
async def delete_memories(wanted: Annotated[ManyMemories, Query()], tx: Writing, recollect: Recollect) -> Any:
    if not wanted.everything:
        wanted.entities.named()
    await _may_write(tx, recollect, wanted.workspace)
    where = Where(wanted.entities, wanted.workspace)
    return {"deleted": await recollect.engine.delete_all(tx, where, reason=wanted.reason)}


@router.post(
    "/api/memories/search",
    summary="Find the memories that fit a query best, by words and by meaning.",
    response_model=Page[Found],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def search_memories(wanted: Search, tx: Reading, recollect: Recollect) -> Any:
    await _is_there(tx, recollect, wanted.workspace)
    return {"data": await recollect.engine.search(tx, wanted.wanted)}


@router.post(
    "/api/memories/context",
    summary="Give the best memories as text for a prompt, within a budget of tokens.",
    response_model=Context,
    responses=responses(404),
)
async def make_context(wanted: WantedContext, tx: Reading, recollect: Recollect) -> Any:
    await _is_there(tx, recollect, wanted.workspace)
    return await recollect.engine.context(tx, wanted.wanted, budget_tokens=wanted.budget_tokens)


@router.get(
    "/api/memories/entities",
    summary="List whom the memories are about: users, agents, apps and runs.",
    response_model=Page[EntityInUse],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_entities(wanted: Annotated[EntityQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    def position(entity: EntityInUse) -> list[str]:
        return [entity.type, entity.name, str(tx.principal.user_id)]

    async def fetch(after: list[Any] | None, limit: int) -> list[EntityInUse]:
        await _is_there(tx, recollect, wanted.workspace)
        place = (after[0], after[1]) if after else ("", "")
        found = await recollect.engine.entities(tx, wanted.workspace, after=place, limit=limit)
        if after and after[2] != str(tx.principal.user_id):
            raise InvalidCursor
        return list(found)

    name = ("memory entities", str(wanted.workspace or ""))
    return await Listing[EntityInUse](recollect.cursors, name, position).page(wanted, fetch)


@router.get(
    "/api/memories/{memoryId}",
    summary="Read one memory.",
    response_model=Memory,
    responses=responses(404),
)
async def get_memory(memory_id: MemoryId, tx: Reading, recollect: Recollect) -> Any:
    return await recollect.engine.get(tx, memory_id)


@router.patch(
    "/api/memories/{memoryId}",
    summary="Change a memory; what it was stays in its history.",
    response_model=Memory,
    responses=responses(404, 409),
)
async def change_memory(memory_id: MemoryId, wanted: MemoryChange, tx: Writing, recollect: Recollect) -> Any:
    async with _told_by_role(tx, lambda reading: recollect.engine.get(reading, memory_id)):
        return await recollect.engine.update(tx, memory_id, **wanted.changes)


@router.delete(
    "/api/memories/{memoryId}",
    summary="Delete a memory; for a while it can be restored.",
    status_code=204,
    responses=responses(404),
)
async def delete_memory(
    memory_id: MemoryId, why: Annotated[Because, Query()], tx: Writing, recollect: Recollect
) -> None:
    async with _told_by_role(tx, lambda reading: recollect.engine.get(reading, memory_id)):
        await recollect.engine.delete(tx, memory_id, reason=why.reason)


@router.post(
    "/api/memories/{memoryId}/restore",
    summary="Take a deletion back.",
    response_model=Memory,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def restore_memory(
    memory_id: MemoryId, why: Annotated[Because, Query()], tx: Writing, recollect: Recollect
) -> Any:
    async def see(reading: Transaction) -> None:
        *_, latest = await recollect.engine.history(reading, memory_id)
        if latest.event != "DELETE":
            raise UnknownMemory

    async with _told_by_role(tx, see):
        return await recollect.engine.restore(tx, memory_id, reason=why.reason)


@router.get(
    "/api/memories/{memoryId}/history",
    summary="List all versions of a memory, oldest first; also of a deleted one.",
    response_model=Page[Version],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_versions(memory_id: MemoryId, tx: Reading, recollect: Recollect) -> Any:
    return {"data": await recollect.engine.history(tx, memory_id)}


@router.get(
    "/api/memories/{memoryId}/links",
    summary="List the facts that say nearly the same as this one, nearest first.",
    response_model=Page[Link],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_links(memory_id: MemoryId, tx: Reading, recollect: Recollect) -> Any:
    await recollect.engine.get(tx, memory_id)
    await tx.finish()
    async with tx.still_open() as reading:
        return {"data": await recollect.engine.links(reading, memory_id)}


@router.post(
    "/api/memories/{memoryId}/feedback",
    summary="Note whether a memory was any good.",
    response_model=Memory,
    responses=responses(404),
    dependencies=[idempotent],
)
async def give_feedback(memory_id: MemoryId, wanted: NewFeedback, tx: Writing, recollect: Recollect) -> Any:
    async with _told_by_role(tx, lambda reading: recollect.engine.get(reading, memory_id)):
        return await recollect.engine.feedback(tx, memory_id, wanted.feedback, wanted.reason)


async def _is_there(tx: Transaction, recollect: Services, workspace: UUID | None) -> None:
    if workspace is not None:
        await recollect.membership.workspace(tx, workspace)


async def _may_write(tx: Transaction, recollect: Services, workspace: UUID | None) -> None:
    # Row security says the same, but only after a model may have been asked for nothing.
    if workspace is not None and (await recollect.membership.workspace(tx, workspace)).role == "viewer":
        raise RoleTooLow


@asynccontextmanager
async def _told_by_role(
    tx: Transaction, see: Callable[[Transaction], Awaitable[object]]
) -> AsyncIterator[None]:
    """Row security finds nothing to change where the role is too low. Who can see it is told so."""
    try:
        yield
    except UnknownMemory as unknown:
        reading = tx.still_open()
        if reading is not tx:
            await tx.finish()
        # Left by an error either way: a claimed idempotency key is not kept for a refusal.
        async with reading:
            await see(reading)
            raise RoleTooLow from unknown
