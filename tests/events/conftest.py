"""A server that tells what happens, and ways to listen to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from recollect.bootstrap import Services
from tests.conftest import Person, working


@dataclass(frozen=True)
class Heard:
    id: int
    kind: str
    data: dict[str, Any]


class Ear:
    """A client of server-sent events."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self, seconds: float = 15) -> Heard:
        fields: dict[str, str] = {}
        async with asyncio.timeout(seconds):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if line:
                    fields[name] = value
                elif "data" in fields:
                    return Heard(int(fields["id"]), fields["event"], json.loads(fields["data"]))
        raise EOFError("the server hung up")

    async def hears_nothing_more(self) -> bool:
        async for line in self._lines:
            if line.startswith("data"):
                return False
        return True


@asynccontextmanager
async def listening(person: Person, **options: Any) -> AsyncIterator[Ear]:
    headers = options.pop("headers", {})
    async with person.http.stream("GET", "/api/events", params=options, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        ear = Ear(response)
        # The first line is sent when the server has taken us in.
        assert await anext(ear._lines) == "retry: 2000"
        yield ear


@pytest.fixture
async def telling(services: Services) -> AsyncIterator[None]:
    """The relay and the server's reader at work."""
    reader = asyncio.create_task(services.live.watch())
    async with working(services):
        yield
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
