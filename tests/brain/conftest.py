"""People and companies whom something is known about, without HTTP in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest

from recollect.access.membership_models import NewCompany
from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.brain.models import Fact, FactChange, FoundFact, Owner, Saved
from recollect.db.database import Database
from recollect.db.tenancy import SERVICE, Caller, Transaction
from recollect.engine.models import Entities, Memory, Where
from recollect.settings import Settings
from tests.support.engines import settings_for

R = TypeVar("R")


@pytest.fixture
def mode() -> str:
    """Which engine keeps the memories; tests that hold for all of them say so."""
    return "self-hosted"


@pytest.fixture
async def settings(mode: str, home: Path, template: Database, database_url: str) -> AsyncIterator[Settings]:
    async with settings_for(mode, home, template, database_url) as chosen:
        yield chosen


@dataclass(frozen=True)
class Knower:
    """Somebody at the brain, about themselves or about a company."""

    services: Services
    caller: Caller
    owner: Owner

    async def do(self, work: Callable[[Transaction], Awaitable[R]]) -> R:
        async with self.services.tenancy.acting_as(self.caller, for_one_call=True) as tx:
            return await work(tx)

    def about(self, owner: Owner) -> Knower:
        return Knower(self.services, self.caller, owner)

    def as_service(self) -> Knower:
        return Knower(self.services, SERVICE, self.owner)

    async def save(self, *memories: object, **facts: str) -> Saved:
        wanted = [*memories, *({"slug": slug, "content": content} for slug, content in facts.items())]
        return await self.do(lambda tx: self.services.brain.save(tx, self.owner, wanted))

    async def get(self, slug: str) -> Fact:
        return await self.do(lambda tx: self.services.brain.get(tx, self.owner, slug))

    async def known(self) -> dict[str, str]:
        facts = await self.do(lambda tx: self.services.brain.facts(tx, self.owner))
        return {fact.slug: fact.content for fact in facts}

    async def search(self, query: str, **more: Any) -> list[FoundFact]:
        return await self.do(lambda tx: self.services.brain.search(tx, self.owner, query, **more))

    async def delete(self, *slugs: str) -> list[str]:
        return await self.do(lambda tx: self.services.brain.delete(tx, self.owner, slugs))

    async def history(self, slug: str) -> list[FactChange]:
        return await self.do(lambda tx: self.services.brain.history(tx, self.owner, slug))

    async def memories(self) -> list[Memory]:
        """What the engine has for them, newest first."""
        where = Where(Entities(app=self.owner.app), workspace=self.owner.id)
        async with self.services.tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            return await self.services.engine.list(tx, where, limit=1_000)

    async def remembered(self) -> dict[str, str]:
        """What the engine says, by slug; an error if it says two things under one."""
        found = [(memory.metadata["slug"], memory.text) for memory in await self.memories()]
        assert len(found) == len(dict(found)), found
        return dict(found)

    async def is_in_step(self) -> bool:
        """Whether every row has its memory and every memory its row, saying the same."""
        facts = await self.as_service().do(lambda tx: self.services.brain.facts(tx, self.owner))
        rows = {(fact.memory_id, fact.slug, fact.content, fact.category) for fact in facts}
        return rows == {
            (str(memory.id), memory.metadata["slug"], memory.text, memory.metadata.get("category"))
            for memory in await self.memories()
        }


async def person(services: Services, email: str) -> Knower:
    user = await services.access.create_user(NewUser(email=email))
    return Knower(services, Caller.user(user.id), Owner("user", user.id))


async def company_of(knower: Knower, name: str = "Acme", rut: str | None = "76.086.428-5") -> Knower:
    made = await knower.do(
        lambda tx: knower.services.membership.create_company(tx, NewCompany(name=name, rut=rut))
    )
    return knower.about(Owner("company", UUID(str(made.id))))


@pytest.fixture
async def ana(services: Services) -> Knower:
    return await person(services, "ana@example.com")


@pytest.fixture
async def ben(services: Services) -> Knower:
    return await person(services, "ben@example.com")


@pytest.fixture
async def acme(ana: Knower) -> Knower:
    """Ana, about her company."""
    return await company_of(ana)
