"""What the tests of access share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import psycopg
import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from tests.access.signing import EMAIL, PASSWORD


@pytest.fixture
async def cleo(services: Services) -> None:
    await services.access.create_user(NewUser(email=EMAIL, password=PASSWORD))


@pytest.fixture
async def as_superuser(database_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
async def browser(address: str) -> AsyncIterator[httpx.AsyncClient]:
    """Keeps cookies, as the anonymous client would too; a second one is another browser."""
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        yield client
