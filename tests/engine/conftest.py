"""People who remember things, without HTTP in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.db.tenancy import Caller, Transaction
from recollect.engine.models import Added, Addition, Entities, Found, Memory, Message, Wanted, Where

R = TypeVar("R")


@dataclass(frozen=True)
class Rememberer:
    """Somebody at the engine."""

    services: Services
    id: UUID

    async def do(self, work: Callable[[Transaction], Awaitable[R]]) -> R:
        async with self.services.tenancy.acting_as(Caller.user(self.id), for_one_call=True) as tx:
            return await work(tx)

    async def add(self, *said: str | Message, user: str | None = "ana", **more: Any) -> Added:
        names = {name: more.pop(name) for name in ("agent", "app", "run") if name in more}
        messages = [each if isinstance(each, Message) else Message(content=each) for each in said]
        wanted = Addition(messages, Entities(user=user, **names), **{"infer": False, **more})
        return await self.do(lambda tx: self.services.engine.add(tx, wanted))

    async def search(
        self, query: str, user: str | None = "ana", *, where: Where | None = None, **more: Any
    ) -> list[Found]:
        wanted = Wanted(query, where or Where(Entities(user=user)), **more)
        return await self.do(lambda tx: self.services.engine.search(tx, wanted))

    async def all(self, user: str | None = "ana", **more: Any) -> list[Memory]:
        where = Where(Entities(user=user), **more)
        return await self.do(lambda tx: self.services.engine.list(tx, where, limit=1_000))

    async def texts(self, user: str | None = "ana", **more: Any) -> list[str]:
        return sorted(memory.text for memory in await self.all(user, **more))


async def rememberer(services: Services, email: str) -> Rememberer:
    user = await services.access.create_user(NewUser(email=email))
    return Rememberer(services, user.id)


@pytest.fixture
async def somebody(services: Services) -> Rememberer:
    return await rememberer(services, "somebody@example.com")


@pytest.fixture
async def another(services: Services) -> Rememberer:
    return await rememberer(services, "another@example.com")
