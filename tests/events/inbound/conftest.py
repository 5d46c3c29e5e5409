"""A server that takes webhooks, and a look at what they lead to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from recollect.settings import Settings
from tests.conftest import make_settings
from tests.events.inbound.sending import MEM0_SECRET, STRIPE_SECRET


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(
        home,
        database_url,
        stripe_webhook_secret=STRIPE_SECRET,
        mem0_webhook_secret=MEM0_SECRET,
        body_timeout_seconds=0.5,
        max_body_bytes=65_536,
    )


@dataclass(frozen=True)
class Ledger:
    """What is in the database, seen by one who sees everything."""

    connection: psycopg.AsyncConnection[DictRow]

    async def events(self, pattern: str) -> list[DictRow]:
        """The published events of a type, in order."""
        return await self.rows(
            "select type, subject, data, user_id, workspace_id, company_id from events.log"
            " where type like %s order by id",
            pattern,
        )

    async def upgrades(self) -> list[DictRow]:
        """The published events that say that somebody has become premium."""
        return [found for found in await self.events("user.updated") if found["data"].get("isPremium")]

    async def received(self, source: str) -> int:
        [row] = await self.rows("select count(*) as n from events.received where source = %s", source)
        return int(row["n"])

    async def is_premium(self, user_id: UUID) -> bool:
        [row] = await self.rows("select is_premium from profiles where id = %s", user_id)
        return bool(row["is_premium"])

    async def assert_nothing_came_of_it(self, user_id: UUID) -> None:
        """Of whatever was sent in Stripe's name."""
        assert not await self.is_premium(user_id)
        assert await self.upgrades() == []
        assert await self.received("stripe") == 0

    async def rows(self, query: str, *parameters: Any) -> list[DictRow]:
        return await (await self.connection.execute(query.encode(), parameters)).fetchall()

    async def run(self, statement: str, *parameters: Any) -> None:
        await self.connection.execute(statement.encode(), parameters)


@pytest.fixture
async def ledger(database_url: str) -> AsyncIterator[Ledger]:
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    ) as connection:
        yield Ledger(connection)
