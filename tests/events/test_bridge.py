"""Events reach Redis, whatever becomes of it, and the cache forgets by them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from recollect.bank.models import Put
from recollect.bootstrap import Services
from recollect.db.queries import Query
from recollect.db.tenancy import SERVICE
from recollect.events.bridge import CHANNEL, USER_UPDATES, Bridge
from recollect.redis.cache import ReadCache
from recollect.redis.link import RedisLink
from recollect.settings import Settings
from tests.conftest import Person, make_settings, until
from tests.redis.server import RedisServer, running_redis

pytestmark = pytest.mark.anyio

MAKE_PREMIUM = Query("premium", "For the test.", "update profiles set is_premium = true where id = %(id)s")


@pytest.fixture
async def redis_server() -> AsyncIterator[RedisServer]:
    async with running_redis() as server:
        yield server


@pytest.fixture
def settings(home: Path, database_url: str, redis_server: RedisServer) -> Settings:
    return make_settings(home, database_url, redis_url=redis_server.url)


@pytest.fixture
def bridge(services: Services) -> Bridge:
    return Bridge(
        services.tenancy, services.database.worker, services.events, services.redis, ReadCache(services.redis)
    )


@asynccontextmanager
async def subscribed(link: RedisLink, channel: str) -> AsyncIterator[list[dict[str, object]]]:
    heard: list[dict[str, object]] = []
    joined = asyncio.Event()

    async def listen() -> None:
        nonlocal heard
        async with aclosing(link.subscribe(channel, joined.set)) as messages:
            async for message in messages:
                heard += [json.loads(message)]

    listening = asyncio.create_task(listen())
    await joined.wait()
    yield heard
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


async def put(services: Services, person: Person, key: str) -> None:
    async with services.tenancy.acting_as(person.caller) as tx:
        await services.bank.put(tx, person.id, Put(key=key, value=1))
    await services.relay.relay()


async def test_redis_hears_every_event(services: Services, bridge: Bridge, ana: Person) -> None:
    await bridge.carry()
    async with subscribed(services.redis, CHANNEL) as heard:
        for number in range(3):
            await put(services, ana, f"k{number}")
        assert await bridge.carry() == 3
        await until(lambda: len(heard) == 3)
        assert await bridge.carry() == 0
    assert [event["data"]["key"] for event in heard] == ["k0", "k1", "k2"]  # type: ignore[index]


async def test_who_becomes_premium_is_told_as_applications_expect_it(
    services: Services, bridge: Bridge, ana: Person
) -> None:
    await bridge.carry()
    async with subscribed(services.redis, USER_UPDATES) as heard:
        async with services.tenancy.acting_as(SERVICE) as tx:
            await tx.run(MAKE_PREMIUM, {"id": ana.id})
        await services.relay.relay()
        await bridge.carry()
        await until(lambda: heard)
    assert heard == [{"userId": str(ana.id), "isPremium": True}]


async def test_what_happens_while_redis_is_away_is_told_when_it_is_back(
    services: Services, bridge: Bridge, ana: Person, redis_server: RedisServer
) -> None:
    await bridge.carry()
    redis_server.kill()
    await put(services, ana, "meanwhile")
    assert await bridge.carry() == 0
    await redis_server.start()
    await until(lambda: services.redis.is_up)
    async with subscribed(services.redis, CHANNEL) as heard:
        assert await bridge.carry() == 1
        await until(lambda: heard)
    assert heard[0]["data"]["key"] == "meanwhile"  # type: ignore[index]


async def test_bridges_that_run_at_once_tell_each_event_once(
    services: Services, bridge: Bridge, ana: Person
) -> None:
    await bridge.carry()
    async with subscribed(services.redis, CHANNEL) as heard:
        for number in range(20):
            await put(services, ana, f"k{number}")
        told = await asyncio.gather(*(bridge.carry() for _ in range(5)))
        assert sum(told) == 20
        await until(lambda: len(heard) == 20)
    positions = [event["position"] for event in heard]
    assert positions == sorted(positions)  # type: ignore[type-var]


async def names(services: Services, person: Person) -> list[str]:
    async with services.tenancy.acting_as(person.caller) as tx:
        return [each.namespace for each in await services.bank.namespaces(tx, person.id)]


async def test_a_cached_read_shows_ones_own_writes_at_once(services: Services, ana: Person) -> None:
    assert await names(services, ana) == []
    for namespace in ("a", "b"):
        async with services.tenancy.acting_as(ana.caller) as tx:
            await services.bank.put(tx, ana.id, Put(key="k", value=1, namespace=namespace))
        assert namespace in await names(services, ana)


async def test_a_cached_read_forgets_by_event(
    services: Services, bridge: Bridge, ana: Person, database_url: str
) -> None:
    await put(services, ana, "k")
    await bridge.carry()
    assert await names(services, ana) == ["default"]
    # Somebody else's write: by another server, by a job, by hand.
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("update user_memory set namespace = 'moved', updated_at = clock_timestamp()")
    assert await names(services, ana) == ["default"]
    await services.relay.relay()
    await bridge.carry()
    assert await names(services, ana) == ["moved"]


async def test_a_cached_read_is_only_for_whom_it_belongs_to(
    services: Services, ana: Person, ben: Person
) -> None:
    await put(services, ana, "k")
    assert await names(services, ana) == ["default"]
    async with services.tenancy.acting_as(ben.caller) as tx:
        assert await services.bank.namespaces(tx, ana.id) == []


async def test_reads_go_on_without_redis(services: Services, ana: Person, redis_server: RedisServer) -> None:
    await put(services, ana, "k")
    assert await names(services, ana) == ["default"]
    redis_server.kill()
    assert await names(services, ana) == ["default"]
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.bank.put(tx, ana.id, Put(key="k", value=1, namespace="new"))
    assert await names(services, ana) == ["default", "new"]
