"""A Redis of each test's own, and links to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from recollect.redis.link import RedisLink
from tests.redis.server import RedisServer, running_redis


@pytest.fixture
async def redis_server() -> AsyncIterator[RedisServer]:
    async with running_redis() as server:
        yield server


@pytest.fixture
async def link(redis_server: RedisServer) -> AsyncIterator[RedisLink]:
    async with RedisLink(redis_server.url) as opened:
        yield opened


@pytest.fixture
async def other_link(redis_server: RedisServer) -> AsyncIterator[RedisLink]:
    """As another process would have."""
    async with RedisLink(redis_server.url) as opened:
        yield opened


@pytest.fixture
async def no_link() -> AsyncIterator[RedisLink]:
    async with RedisLink(None) as opened:
        yield opened
