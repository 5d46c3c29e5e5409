"""Each test of the conformance suite runs on our own engine, on mem0's library, and on a server that speaks
as mem0's platform does: another Recollect, with an account for all tenants of this one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from recollect.access import store
from recollect.access.models import NewKey
from recollect.bootstrap import Services, build_services
from recollect.db import database as databases
from recollect.db.database import Database
from recollect.db.tenancy import SERVICE, Caller, Transaction
from recollect.engine.models import Added, Addition, Entities, Found, Memory, Message, Wanted, Where
from recollect.kit.secret import ServerSecret
from recollect.settings import Settings
from tests.conftest import SECRET, make_settings, served

KIM = Entities(user="kim")


@pytest.fixture(params=["self-hosted", "oss", "platform"])
def mode(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
async def settings(mode: str, home: Path, template: Database, database_url: str) -> AsyncIterator[Settings]:
    if mode != "platform":
        yield make_settings(home, database_url, mem0_mode=mode, embedding="static")
        return
    async with _platform(home, template) as (host, key):
        yield make_settings(
            home, database_url, mem0_mode=mode, mem0_host=host, mem0_api_key=key, embedding="static"
        )


@asynccontextmanager
async def _platform(home: Path, template: Database) -> AsyncIterator[tuple[str, str]]:
    name = f"test_{uuid4().hex}"
    maintenance = make_conninfo(template.admin, dbname="postgres")
    async with await psycopg.AsyncConnection.connect(maintenance, autocommit=True) as connection:
        await connection.execute(f"create database {name} template recollect".encode())
        url = make_conninfo(template.admin, dbname=name)
        secret = ServerSecret(SECRET.encode())
        settings = make_settings(home, url, embedding="static")
        async with (
            databases.locate(settings, secret) as database,
            build_services(settings, secret, database) as services,
            served(services) as address,
        ):
            caller = await _user(services, "operator@example.com")
            async with services.tenancy.acting_as(caller) as tx:
                issued = await services.access.create_key(tx, NewKey(name="mem0", scopes=["read", "write"]))
            yield address, issued.key
        await connection.execute(f"drop database {name} with (force)".encode())


async def _user(services: Services, email: str) -> Caller:
    async with services.tenancy.acting_as(SERVICE) as tx:
        return Caller.user(await store.add_user(tx, email, None))


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
        return Door(services, await _user(services, email))

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
