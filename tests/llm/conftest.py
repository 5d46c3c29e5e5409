"""What the tests of models share: a stand-in for a model's server, and a look at the ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import dict_row
from pydantic import BaseModel, Field

from recollect.access import store
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller
from recollect.llm import service
from recollect.settings import Settings
from tests.conftest import make_settings
from tests.support.model_server import ModelServer

Sql = Callable[..., Awaitable[list[dict[str, Any]]]]
AddUser = Callable[[str], Awaitable[UUID]]
Ask = Callable[..., Coroutine[Any, Any, Any]]

FACTS = {"title": "Ana", "facts": [{"text": "likes tea", "weight": 3}]}


class Fact(BaseModel):
    text: str = Field(min_length=1, max_length=100)
    weight: int = Field(ge=1, le=5)


class Facts(BaseModel):
    title: str
    facts: list[Fact] = Field(max_length=10)
    note: str | None = None


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "FIRST_WAIT_SECONDS", 0.01)


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer().running() as server:
        yield server


@pytest.fixture(params=["anthropic", "openai"])
def protocol(request: pytest.FixtureRequest) -> str:
    """Override in a test module where one protocol is enough."""
    name: str = request.param
    return name


@pytest.fixture
def options() -> dict[str, Any]:
    """Further settings; override in a test module or by a parameter."""
    return {}


@pytest.fixture
def settings(
    home: Path, database_url: str, model: ModelServer, protocol: str, options: dict[str, Any]
) -> Settings:
    speaking = model.as_anthropic if protocol == "anthropic" else model.as_openai
    return make_settings(home, database_url, **speaking(**options))


@pytest.fixture
def add_user(services: Services) -> AddUser:
    async def add(email: str) -> UUID:
        async with services.tenancy.acting_as(SERVICE) as tx:
            return await store.add_user(tx, email, None)

    return add


@pytest.fixture
def ask(services: Services) -> Ask:
    """Asks for facts, as the service unless somebody is named: ``await ask(caller)``."""

    async def run(caller: Caller = SERVICE, **options: Any) -> Any:
        wanted = {
            "purpose": "memory.extract",
            "system": "You note facts.",
            "prompt": "Ana likes tea.",
            "answer": Facts,
            "max_tokens": 1_000,
            **options,
        }
        return await services.llm.ask(caller, **wanted)

    return run


@pytest.fixture
async def sql(database_url: str) -> AsyncIterator[Sql]:
    """As the database's owner, who sees everything."""
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    ) as connection:

        async def run(statement: str, *parameters: Any) -> list[dict[str, Any]]:
            cursor = await connection.execute(statement.encode(), parameters)
            return await cursor.fetchall() if cursor.description else []

        yield run


async def ledger(sql: Sql) -> list[dict[str, Any]]:
    return await sql("select * from model_calls order by started_at, id")
