"""What mem0's platform answers with, as far as it is used."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, RootModel


class MemoryReply(BaseModel):
    id: UUID
    memory: str
    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    metadata: dict[str, Any] | None = None
    categories: list[str] | None = None
    created_at: datetime
    updated_at: datetime


class FoundMemory(MemoryReply):
    score: float
    score_breakdown: dict[str, float | None] | None = None


class FoundReply(BaseModel):
    results: list[FoundMemory]


class PageReply(BaseModel):
    count: int
    next: str | None = None
    results: list[MemoryReply]


class RawPage(BaseModel):
    """A page whose memories are judged one by one."""

    count: int
    next: str | None = None
    results: list[Any]


class Stored(BaseModel):
    id: UUID


class AddedReply(BaseModel):
    """An addition, or how far it is."""

    status: str | None = None
    event_id: str | None = None
    results: list[Stored] | None = None


class Entry(BaseModel):
    event: Literal["ADD", "UPDATE", "DELETE"]
    old_memory: str | None = None
    new_memory: str | None = None
    created_at: datetime
    updated_at: datetime


class HistoryReply(RootModel[list[Entry]]):
    pass


class EntityReply(BaseModel):
    name: str
    type: Literal["user", "agent", "app", "run"]
    total_memories: int | None = None
    created_at: datetime
    updated_at: datetime


class EntitiesReply(BaseModel):
    next: str | None = None
    results: list[EntityReply]


class Anything(RootModel[Any]):
    pass
