"""Somebody with a profile, without HTTP in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import psycopg
import pytest

from recollect.access import store
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller, Transaction
from recollect.profile.models import Difference, NewActivity, Recorded, Snapshot, Update

R = TypeVar("R")
Superuser = Callable[..., Awaitable[list[tuple[Any, ...]]]]


@dataclass(frozen=True)
class Person:
    services: Services
    id: UUID
    caller: Caller

    async def do(self, work: Callable[[Transaction], Awaitable[R]]) -> R:
        async with self.services.tenancy.acting_as(self.caller, for_one_call=True) as tx:
            return await work(tx)

    async def read(self, *, version: int | None = None, at: datetime | None = None) -> Snapshot:
        return await self.do(
            lambda tx: self.services.profile.reconstruct_memory(tx, self.id, version=version, at=at)
        )

    async def edit(self, *patch: dict[str, Any], **more: Any) -> Snapshot:
        return await self.do(
            lambda tx: self.services.profile.save_new_snapshot(tx, self.id, list(patch), **more)
        )

    async def say(self, summary: str, **more: Any) -> Snapshot:
        return await self.edit({"op": "replace", "path": "/summary", "value": summary}, **more)

    async def diff(self, one: int, other: int | None = None) -> Difference:
        return await self.do(lambda tx: self.services.profile.diff(tx, self.id, one, other))

    async def record(self, *activities: NewActivity) -> Recorded:
        return await self.do(lambda tx: self.services.profile.record(tx, self.id, activities))

    async def update(self) -> Update:
        made = await self.services.updater.update(self.id)
        assert made is not None
        return made


async def person(services: Services, name: str) -> Person:
    async with services.tenancy.acting_as(SERVICE) as tx:
        user_id = await store.add_user(tx, f"{name}@example.com", None)
    return Person(services, user_id, Caller.user(user_id))


@pytest.fixture
async def ana(services: Services) -> Person:
    return await person(services, "ana")


@pytest.fixture
async def ben(services: Services) -> Person:
    return await person(services, "ben")


@pytest.fixture
def superuser(database_url: str) -> Superuser:
    async def execute(statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            cursor = await connection.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []

    return execute
