"""Rows of the brain for code that thinks in repositories. Writing goes by the service all the same: a row
never comes or goes without its memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Generic, Protocol, TypedDict, TypeVar
from uuid import UUID

from recollect.brain.models import Fact, Kind, Owner, UnknownFact
from recollect.brain.service import PAGE, Brain
from recollect.db.tenancy import Transaction
from recollect.errors import InvalidInput

R = TypeVar("R")


class Client(Protocol):
    """Whatever a repository works with: something that has the brain open for somebody."""

    async def with_brain(self, work: Callable[[Brain, Transaction], Awaitable[R]]) -> R: ...


class BrainRow(TypedDict):
    id: UUID
    memory_id: str
    slug: str
    content: str
    extra_metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class UserBrainRow(BrainRow):
    user_id: UUID


class CompanyBrainRow(BrainRow):
    company_id: UUID


Row = TypeVar("Row", bound=BrainRow)


class _Repository(ABC, Generic[Row]):
    kind: Kind

    def __init__(self, client: Client) -> None:
        self._client = client

    async def upsert(
        self,
        owner_id: UUID | str,
        /,
        slug: str,
        content: str,
        extra_metadata: Mapping[str, Any] | None = None,
    ) -> Row:
        """Keep a fact under a slug, together with its memory."""
        owner = owner_named(self.kind, owner_id)
        metadata = dict(extra_metadata or {})
        memory = {"slug": slug, "content": content, "category": metadata.pop("category", None)}
        saved = await self._client.with_brain(
            lambda brain, tx: brain.save(tx, owner, [{**memory, "extra_metadata": metadata}])
        )
        if not saved.success:
            raise InvalidInput(saved.errors[0])
        return self._row(owner, await self._client.with_brain(lambda brain, tx: brain.get(tx, owner, slug)))

    async def delete(self, owner_id: UUID | str, /, slug: str) -> bool:
        """Forget a fact and its memory; says whether there was one."""
        owner = owner_named(self.kind, owner_id)
        return bool(await self._client.with_brain(lambda brain, tx: brain.delete(tx, owner, [slug])))

    async def _get(self, owner_id: UUID | str, slug: str) -> Row | None:
        owner = owner_named(self.kind, owner_id)
        try:
            fact = await self._client.with_brain(lambda brain, tx: brain.get(tx, owner, slug))
        except UnknownFact:
            return None
        return self._row(owner, fact)

    async def _all(self, owner_id: UUID | str) -> list[Row]:
        owner = owner_named(self.kind, owner_id)

        async def everything(brain: Brain, tx: Transaction) -> list[Fact]:
            found: list[Fact] = []
            while True:
                after = found[-1].slug if found else ""
                async with tx.still_open() as reading:
                    page = await brain.facts(reading, owner, after=after)
                found += page
                if len(page) < PAGE:
                    return found

        return [self._row(owner, fact) for fact in await self._client.with_brain(everything)]

    @abstractmethod
    def _row(self, owner: Owner, fact: Fact) -> Row: ...


class UserBrainRepository(_Repository[UserBrainRow]):
    """What is known about users."""

    kind = "user"

    async def get_by_user_and_slug(self, user_id: UUID | str, slug: str) -> UserBrainRow | None:
        return await self._get(user_id, slug)

    async def get_all_by_user(self, user_id: UUID | str) -> list[UserBrainRow]:
        return await self._all(user_id)

    def _row(self, owner: Owner, fact: Fact) -> UserBrainRow:
        return {"user_id": owner.id, **_columns(fact)}


class CompanyBrainRepository(_Repository[CompanyBrainRow]):
    """What is known about companies."""

    kind = "company"

    async def get_by_company_and_slug(self, company_id: UUID | str, slug: str) -> CompanyBrainRow | None:
        return await self._get(company_id, slug)

    async def get_all_by_company(self, company_id: UUID | str) -> list[CompanyBrainRow]:
        return await self._all(company_id)

    def _row(self, owner: Owner, fact: Fact) -> CompanyBrainRow:
        return {"company_id": owner.id, **_columns(fact)}


def owner_named(kind: Kind, given: UUID | str) -> Owner:
    try:
        return Owner(kind, given if isinstance(given, UUID) else UUID(str(given)))
    except ValueError:
        raise InvalidInput(f"{kind}_id: {given!r} is not a UUID.") from None


def _columns(fact: Fact) -> BrainRow:
    return {
        "id": fact.id,
        "memory_id": fact.memory_id,
        "slug": fact.slug,
        "content": fact.content,
        "extra_metadata": fact.extra_metadata,
        "created_at": fact.created_at,
        "updated_at": fact.updated_at,
    }
