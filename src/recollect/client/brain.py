"""Facts about users and companies, one per slug, through the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from recollect.brain.models import Fact, FactChange, FoundFact, NewMemory, Planned, Saved, Slug
from recollect.client.connection import PAGE, Connection, data_in, given, plain_json, read, valid
from recollect.errors import InvalidInput

_id: TypeAdapter[UUID] = TypeAdapter(UUID)
_slug: TypeAdapter[str] = TypeAdapter(Slug)


class Brain:
    def __init__(self, server: Connection) -> None:
        self._server = server

    def user(self, user_id: UUID | str) -> Facts:
        """What is known about a user."""
        return Facts(self._server, f"/api/users/{valid(_id, 'user_id', user_id)}/brain")

    def company(self, company_id: UUID | str) -> Facts:
        """What is known about a company."""
        return Facts(self._server, f"/api/companies/{valid(_id, 'company_id', company_id)}/brain")


class Facts:
    """What is known about one user or company."""

    def __init__(self, server: Connection, path: str) -> None:
        self._server = server
        self._path = path

    async def save(
        self, memories: Sequence[Mapping[str, Any] | NewMemory], *, reason: str | None = None
    ) -> Saved:
        """Keep facts, each under its slug; the answer names those that cannot be kept, the others are."""
        wanted = {"memories": memories, **given(reason=reason)}
        return read(Saved, await self._server.send("POST", self._path, json=plain_json(wanted)))

    async def plan(self, memories: Sequence[Mapping[str, Any] | NewMemory]) -> list[Planned]:
        """What saving these would change, without changing it."""
        wanted = plain_json({"memories": memories})
        answer = await self._server.send("POST", self._path, params={"dry_run": "true"}, json=wanted)
        return [read(Planned, item) for item in data_in(answer)]

    async def search(self, query: str, *, category: str | None = None, limit: int = 10) -> list[FoundFact]:
        """The facts that fit best, best first."""
        wanted = given(query=query, category=category, limit=limit)
        return [
            read(FoundFact, item)
            for item in data_in(await self._server.send("GET", self._path, params=wanted))
        ]

    async def get(self, slug: str) -> Fact:
        """What is known under a slug; NotFound if nothing is."""
        return read(Fact, await self._server.send("GET", self._one(slug)))

    async def put(
        self,
        slug: str,
        content: str,
        *,
        category: str | None = None,
        extra_metadata: Mapping[str, Any] | None = None,
        reason: str | None = None,
    ) -> Fact:
        """Say what is known under a slug, in place of all that was."""
        wanted = given(content=content, category=category, extra_metadata=extra_metadata, reason=reason)
        return read(Fact, await self._server.send("PUT", self._one(slug), json=plain_json(wanted)))

    async def delete(self, slug: str, *, reason: str | None = None) -> None:
        """Forget what is known under a slug; NotFound if nothing is."""
        await self._server.send("DELETE", self._one(slug), params=given(reason=reason))

    async def undo(self, slug: str, *, change: int | None = None, reason: str | None = None) -> FactChange:
        """Take the last change back; Conflict if it is not ``change``, where that is given."""
        if change is None:
            # Named, so that a request that has to be sent twice does not undo what it has done.
            [last] = await self.history(slug, limit=1)
            change = last.id
        which = given(change=change, reason=reason)
        return read(FactChange, await self._server.send("POST", f"{self._one(slug)}/undo", params=which))

    async def history(self, slug: str, *, limit: int | None = None) -> list[FactChange]:
        """What became of a slug, newest first: all of it, or at most so much; also of one that is gone."""
        return [read(FactChange, item) for item in await self._items(f"{self._one(slug)}/history", {}, limit)]

    async def _items(self, path: str, params: dict[str, Any], limit: int | None) -> Sequence[Any]:
        if limit is not None and limit < 1:
            raise InvalidInput("limit: at least 1.")
        found: list[Any] = []
        async for item in self._server.items(path, params, page=min(limit or PAGE, PAGE)):
            found.append(item)
            if len(found) == limit:
                break
        return found

    def _one(self, slug: str) -> str:
        return f"{self._path}/{valid(_slug, 'slug', slug)}"

    # The last one: after it, "list" means this here.
    async def list(self, *, category: str | None = None, limit: int | None = None) -> list[Fact]:
        """What is known, by slug: all of it, or at most so much."""
        return [read(Fact, item) for item in await self._items(self._path, given(category=category), limit)]
