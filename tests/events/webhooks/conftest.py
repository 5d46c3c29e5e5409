"""Webhooks of people, a receiver for them, and a worker whose turns are taken one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from recollect.bootstrap import Services
from recollect.db.queries import Query
from recollect.db.tenancy import SERVICE
from recollect.events.webhooks.tasks import DELIVER
from recollect.jobs.models import Job
from recollect.settings import Settings
from tests.conftest import Person, make_settings
from tests.events.webhooks.receiving import Receiver, receiving

BEGIN = Query(
    "begin",
    "For the test.",
    "select b.* from jobs.runs r, private.begin_run(r.id, r.ticket) b where r.id = %(id)s",
)


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, webhooks_allow_private=True)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


@dataclass(frozen=True)
class Hook:
    """A webhook of somebody's."""

    owner: Person
    id: UUID
    workspace: str
    secret: str

    @property
    def address(self) -> str:
        return f"{self.workspace}/webhooks/{self.id}"

    async def deliveries(self, **query: str) -> list[dict[str, Any]]:
        answer = await self.owner.http.get(f"{self.address}/deliveries", params=query)
        assert answer.status_code == 200, answer.text
        listed: list[dict[str, Any]] = answer.json()["data"]
        return listed

    async def get(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.owner.http.get(self.address)).json()
        return found


async def personal(owner: Person) -> str:
    """The address of somebody's personal workspace."""
    [first, *_] = (await owner.http.get("/api/workspaces")).json()["data"]
    assert first["is_personal"]
    return f"/api/workspaces/{first['id']}"


async def shared(owner: Person) -> str:
    made = await owner.http.post("/api/workspaces", json={"name": "Team"})
    return f"/api/workspaces/{made.json()['id']}"


async def hook(owner: Person, url: str, *types: str, workspace: str | None = None) -> Hook:
    place = workspace or await personal(owner)
    body = {"url": url, **({"types": list(types)} if types else {})}
    answer = await owner.http.post(f"{place}/webhooks", json=body)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    return Hook(owner, UUID(made["id"]), place, made["secret"])


async def remember(owner: Person, key: str, value: Any = 1) -> None:
    """Something happens."""
    answer = await owner.http.post(owner.memory, json={"key": key, "value": value})
    assert answer.status_code == 200, answer.text


@asynccontextmanager
async def as_user(
    services: Services, person: Person
) -> AsyncIterator[psycopg.AsyncConnection[tuple[Any, ...]]]:
    """Somebody's rights and no more, past all that is checked before the database."""
    async with await psycopg.AsyncConnection.connect(services.database.api) as connection:
        await connection.execute(
            "select set_config('role', 'authenticated', true),"
            " set_config('request.jwt.claims', private.claims_of_user(%s, 'write', null), true)",
            (person.id,),
        )
        yield connection
        await connection.rollback()


class Turns:
    """The relay and the worker, by hand: time passes only when a test says so."""

    def __init__(self, services: Services, superuser: psycopg.AsyncConnection[DictRow]) -> None:
        self.services = services
        self.superuser = superuser

    async def relay(self) -> None:
        await self.services.relay.relay()

    async def job(self, task: str, arguments: dict[str, Any] | None = None) -> Job:
        """A job in a worker's hands."""
        async with self.services.tenancy.acting_as(SERVICE) as tx:
            run = await self.services.jobs.enqueue(tx, task, arguments or {})
            row = await tx.one(BEGIN, {"id": run})
        known = {field.name for field in fields(Job)} & row.keys()
        return Job(**{name: row[name] for name in known}, tenancy=self.services.tenancy)

    async def run(self, task: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        counts = await self.services.jobs.tasks[task].run(await self.job(task, arguments))
        return dict(counts or {})

    async def deliver(self, hook: Hook) -> dict[str, Any]:
        """What happened is told, as far as it is due."""
        await self.relay()
        return await self.run(DELIVER, {"endpoint": str(hook.id)})

    async def retry(self, hook: Hook) -> dict[str, Any]:
        """The time of the next attempt has come."""
        await self.sql("update events.deliveries set next_attempt_at = now() where state = 'pending'")
        await self.sql("update events.endpoints set rests_until = null")
        return await self.deliver(hook)

    async def sql(self, statement: str, *parameters: Any) -> list[DictRow]:
        cursor = await self.superuser.execute(statement.encode(), parameters)
        return await cursor.fetchall() if cursor.description else []

    async def waiting(self) -> list[DictRow]:
        return await self.sql(
            "select due_at, arguments, key from jobs.runs"
            " where task = %s and state = 'waiting' order by due_at",
            DELIVER,
        )


@pytest.fixture
async def turns(services: Services, database_url: str) -> AsyncIterator[Turns]:
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    ) as connection:
        yield Turns(services, connection)
