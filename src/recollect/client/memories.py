"""Memories: what was said and the facts in it, through the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, Unpack
from uuid import UUID

from pydantic import TypeAdapter

from recollect.client.connection import (
    PAGE,
    Connection,
    data_in,
    given,
    not_understood,
    plain_json,
    read,
    valid,
)
from recollect.engine.models import Added, Context, EntityInUse, Feedback, Found, Link, Memory, Version
from recollect.errors import InvalidInput

PATH = "/api/memories"
_KEEP: Any = object()

_id: TypeAdapter[UUID] = TypeAdapter(UUID)


class About(TypedDict, total=False):
    """Whom memories are about, as the application calls them; and in which workspace, if not one's own."""

    user: str
    agent: str
    app: str
    run: str
    workspace: UUID | str


class Remembering(About, total=False):
    """How something is to be remembered."""

    metadata: Mapping[str, Any]
    categories: Sequence[str]
    importance: float
    infer: bool
    expires_at: datetime
    occurred_at: datetime
    reason: str


class Listing(About, total=False):
    """Which memories are meant."""

    filters: Mapping[str, Any]
    expired: bool
    superseded: bool


class Looking(Listing, total=False):
    """Among which memories to look, and what counts."""

    threshold: float
    recency: float
    half_life_days: float
    importance: float


class Memories:
    def __init__(self, server: Connection) -> None:
        self._server = server

    async def add(self, messages: str | Sequence[Mapping[str, Any]], **how: Unpack[Remembering]) -> Added:
        """Remember a text or a conversation; with ``infer=False`` as it was said, otherwise the facts in it.
        The same call again adds nothing."""
        said = {"text": messages} if isinstance(messages, str) else {"messages": list(messages)}
        return read(Added, await self._server.send("POST", PATH, json=plain_json({**said, **how})))

    async def search(
        self, query: str, *, limit: int = 10, explain: bool = False, **among: Unpack[Looking]
    ) -> list[Found]:
        """The memories that fit best, best first."""
        wanted = plain_json({"query": query, "limit": limit, "explain": explain, **among})
        answer = await self._server.send("POST", f"{PATH}/search", json=wanted)
        return [read(Found, item) for item in data_in(answer)]

    async def context(self, query: str, *, budget_tokens: int = 1_000, **among: Unpack[Looking]) -> Context:
        """The best memories as text for a prompt, within a budget."""
        wanted = plain_json({"query": query, "budget_tokens": budget_tokens, **among})
        return read(Context, await self._server.send("POST", f"{PATH}/context", json=wanted))

    async def get(self, memory_id: UUID | str) -> Memory:
        return read(Memory, await self._server.send("GET", _one(memory_id)))

    async def update(
        self,
        memory_id: UUID | str,
        *,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | None = _KEEP,
        occurred_at: datetime | None = None,
        reason: str | None = None,
    ) -> Memory:
        """Change a memory; what is not given stays. An ``expires_at`` of None takes the expiry away."""
        changes = given(text=text, metadata=metadata, occurred_at=occurred_at, reason=reason)
        if expires_at is not _KEEP:
            changes["expires_at"] = expires_at
        return read(Memory, await self._server.send("PATCH", _one(memory_id), json=plain_json(changes)))

    async def delete(self, memory_id: UUID | str, *, reason: str | None = None) -> None:
        """Forget a memory; for a while it can be restored."""
        await self._server.send("DELETE", _one(memory_id), params=given(reason=reason))

    async def delete_all(
        self, *, everything: bool = False, reason: str | None = None, **about: Unpack[About]
    ) -> int:
        """Forget all about somebody, or everything where that is said; how many they were."""
        wanted = {**_query(about), **given(reason=reason), **({"all": "true"} if everything else {})}
        answer = await self._server.send("DELETE", PATH, params=wanted)
        if not isinstance(answer, dict) or not isinstance(answer.get("deleted"), int):
            raise not_understood()
        deleted: int = answer["deleted"]
        return deleted

    async def restore(self, memory_id: UUID | str, *, reason: str | None = None) -> Memory:
        """Take a deletion back."""
        path = f"{_one(memory_id)}/restore"
        return read(Memory, await self._server.send("POST", path, params=given(reason=reason)))

    async def history(self, memory_id: UUID | str) -> list[Version]:
        """All versions of a memory, oldest first; also of a deleted one."""
        answer = await self._server.send("GET", f"{_one(memory_id)}/history")
        return [read(Version, item) for item in data_in(answer)]

    async def links(self, memory_id: UUID | str) -> list[Link]:
        """Facts that say nearly the same, nearest first."""
        answer = await self._server.send("GET", f"{_one(memory_id)}/links")
        return [read(Link, item) for item in data_in(answer)]

    async def feedback(
        self, memory_id: UUID | str, feedback: Feedback | None, *, reason: str | None = None
    ) -> Memory:
        """Note whether a memory was any good; None takes it back."""
        path, wanted = f"{_one(memory_id)}/feedback", {"feedback": feedback, "reason": reason}
        return read(Memory, await self._server.send("POST", path, json=plain_json(wanted)))

    async def entities(self, *, workspace: UUID | str | None = None) -> list[EntityInUse]:
        """Whom the memories are about, all of them."""
        found = self._server.items(f"{PATH}/entities", _query(given(workspace=workspace)))
        return [read(EntityInUse, item) async for item in found]

    # The last one: after it, "list" means this here.
    async def list(self, *, limit: int | None = None, **which: Unpack[Listing]) -> list[Memory]:
        """Memories, the newest first; all of them, or at most so many."""
        found: list[Memory] = []
        if limit is not None and limit < 1:
            raise InvalidInput("limit: at least 1.")
        async for item in self._server.items(PATH, _query(which), page=min(limit or PAGE, PAGE)):
            found.append(read(Memory, item))
            if len(found) == limit:
                break
        return found


def _one(memory_id: UUID | str) -> str:
    return f"{PATH}/{valid(_id, 'memory_id', memory_id)}"


def _query(fields: Mapping[str, Any]) -> dict[str, str]:
    """As parameters of an address: filters as JSON, and what is None left out."""
    plain = plain_json(fields)
    return {
        name: value if isinstance(value, str) else TypeAdapter(Any).dump_json(value).decode()
        for name, value in plain.items()
        if value is not None
    }
