"""Each test of the conformance suite runs on our own engine, on mem0's library, and on a server that speaks
as mem0's platform does: another Recollect, with an account for all tenants of this one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from recollect.bootstrap import Services
from recollect.db.database import Database
from recollect.db.tenancy import Caller, Transaction
from recollect.engine.models import Added, Addition, Entities, Found, Memory, Message, Wanted, Where
from recollect.settings import Settings
from tests.support.engines import ENGINES, a_user, settings_for

KIM = Entities(user="kim")


@pytest.fixture(params=ENGINES)
def mode(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
async def settings(mode: str, home: Path, template: Database, database_url: str) -> AsyncIterator[Settings]:
    async with settings_for(mode, home, template, database_url) as chosen:
        yield chosen


@dataclass(frozen=True)
class Door:
    """What somebody can do with memories, each call in a transaction of its own."""

    services: Services
    caller: Caller
    of: Entities = field(default=KIM)

    @property
    def id(self) -> UUID:
        assert isinstance(self.caller.credential, UUID)
        return self.caller.credential

    async def call(self, verb: str, *given: Any, **named: Any) -> Any:
        async with self.tx() as tx:
            return await getattr(self.services.engine, verb)(tx, *given, **named)

    def tx(self) -> Transaction:
        return self.services.tenancy.acting_as(self.caller, for_one_call=True)

    async def add(self, *texts: str, of: Entities | None = None, **more: Any) -> Added:
        return await self.said([Message(content=text) for text in texts], of=of, **more)

    async def said(self, messages: Sequence[Message], of: Entities | None = None, **more: Any) -> Added:
        wanted = Addition(messages, of or self.of, **{"infer": False, **more})
        added: Added = await self.call("add", wanted)
        return added

    async def added(self, text: str, **more: Any) -> UUID:
        [change] = (await self.add(text, **more)).results
        assert change.event == "ADD"
        return change.id

    async def listed(self, where: Where | None = None, **more: Any) -> list[Memory]:
        found: list[Memory] = await self.call("list", where or Where(), **more)
        return found

    async def texts(self, where: Where | None = None) -> set[str]:
        return {memory.text for memory in await self.listed(where)}

    async def search(self, query: str, where: Where | None = None, **more: Any) -> list[Found]:
        found: list[Found] = await self.call("search", Wanted(query, where or Where(), **more))
        return found

    async def got(self, memory_id: UUID) -> Memory:
        memory: Memory = await self.call("get", memory_id)
        return memory


MakeDoor = Callable[[str], Awaitable[Door]]


@pytest.fixture
def door(services: Services) -> MakeDoor:
    async def make(email: str) -> Door:
        return Door(services, await a_user(services, email))

    return make


@pytest.fixture
async def ana(door: MakeDoor) -> Door:
    return await door("ana@example.com")


@pytest.fixture
async def ben(door: MakeDoor) -> Door:
    return await door("ben@example.com")


def about(**names: str) -> Where:
    return Where(Entities(**names))


def passing(**filters: Any) -> Where:
    return Where(filters=filters)


def texts_of(found: Sequence[Memory]) -> list[str]:
    return [memory.text for memory in found]
