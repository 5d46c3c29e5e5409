"""The cache: each tenant's own, never older than the last change, and not needed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from recollect.redis.cache import MAX_OWED, MAX_VALUE_BYTES, ReadCache
from recollect.redis.link import RedisLink
from tests.redis.server import RedisServer, until

pytestmark = pytest.mark.anyio

ANA, BEN = UUID(int=1), UUID(int=2)


class Source:
    """What is cached. ``hold`` keeps loads waiting after they have read the value."""

    def __init__(self, value: bytes = b"first") -> None:
        self.value = value
        self.loads = 0
        self.waiting = 0
        self._go = asyncio.Event()
        self._go.set()

    def hold(self) -> None:
        self._go.clear()

    def release(self) -> None:
        self._go.set()

    async def load(self) -> bytes:
        self.loads += 1
        value = self.value
        self.waiting += 1
        await self._go.wait()
        self.waiting -= 1
        return value


@pytest.fixture
def cache(link: RedisLink) -> ReadCache:
    return ReadCache(link)


@pytest.fixture
def other_cache(other_link: RedisLink) -> ReadCache:
    return ReadCache(other_link)


@pytest.mark.parametrize("value", [b"a value", b"", b"\x00\xff" * 1000, b"x" * MAX_VALUE_BYTES])
async def test_what_was_read_once_is_not_loaded_again_by_anybody(
    cache: ReadCache, other_cache: ReadCache, value: bytes
) -> None:
    source = Source(value)
    for reader in (cache, cache, other_cache):
        assert await reader.read(ANA, "profile", "key", source.load) == value
    assert source.loads == 1


async def test_tenants_kinds_and_keys_are_apart(cache: ReadCache) -> None:
    places = [(ANA, "a", "bc"), (ANA, "ab", "c"), (ANA, "a", "b"), (ANA, "a", ""), (BEN, "a", "bc")]
    for number, place in enumerate(places):
        assert await cache.read(*place, Source(b"%d" % number).load) == b"%d" % number
    for number, place in enumerate(places):
        assert await cache.read(*place, Source(b"loaded again").load) == b"%d" % number


async def test_forgetting_concerns_one_kind_of_one_tenant_for_all_processes(
    cache: ReadCache, other_cache: ReadCache
) -> None:
    places = [(ANA, "profile", "1"), (ANA, "profile", "2"), (ANA, "rules", "1"), (BEN, "profile", "1")]
    for place in places:
        await cache.read(*place, Source(b"old").load)
    await other_cache.forget(ANA, "profile")
    found = [await cache.read(*place, Source(b"new").load) for place in places]
    assert found == [b"new", b"new", b"old", b"old"]


async def test_a_load_that_began_before_a_change_is_not_kept_after_it(
    cache: ReadCache, other_cache: ReadCache
) -> None:
    source = Source(b"old")
    source.hold()
    early = asyncio.create_task(cache.read(ANA, "profile", "key", source.load))
    await until(lambda: source.waiting == 1)
    source.value = b"new"
    await other_cache.forget(ANA, "profile")
    source.release()
    assert await early == b"old"
    assert await cache.read(ANA, "profile", "key", source.load) == b"new"
    assert await other_cache.read(ANA, "profile", "key", source.load) == b"new"
    assert source.loads == 2


async def test_a_late_load_does_not_replace_what_was_loaded_after_the_change(
    cache: ReadCache, other_cache: ReadCache
) -> None:
    slow, quick = Source(b"old"), Source(b"new")
    slow.hold()
    early = asyncio.create_task(cache.read(ANA, "profile", "key", slow.load))
    await until(lambda: slow.waiting == 1)
    await other_cache.forget(ANA, "profile")
    assert await other_cache.read(ANA, "profile", "key", quick.load) == b"new"
    slow.release()
    await early
    assert await other_cache.read(ANA, "profile", "key", Source(b"loaded again").load) == b"new"


async def test_who_asks_after_a_change_does_not_get_what_others_began_to_load_before_it(
    cache: ReadCache,
) -> None:
    slow = Source(b"old")
    slow.hold()
    early = asyncio.create_task(cache.read(ANA, "profile", "key", slow.load))
    await until(lambda: slow.waiting == 1)
    await cache.forget(ANA, "profile")
    async with asyncio.timeout(10):  # waiting for the other would be for ever
        assert await cache.read(ANA, "profile", "key", Source(b"new").load) == b"new"
    slow.release()
    await early


async def test_changes_and_reads_in_any_order_never_leave_an_old_value(
    cache: ReadCache, other_cache: ReadCache
) -> None:
    current = 0

    async def load() -> bytes:
        value = b"%d" % current
        await asyncio.sleep(0)
        return value

    async def read(reader: ReadCache) -> None:
        for _ in range(150):
            least = current if not changing else 0
            assert int(await reader.read(ANA, "profile", "key", load)) >= least

    changing = False

    async def change() -> None:
        nonlocal current, changing
        for _ in range(75):
            changing = True
            current += 1
            await other_cache.forget(ANA, "profile")
            changing = False
            await asyncio.sleep(0.001)

    async with asyncio.TaskGroup() as group:
        for reader in (cache, cache, other_cache):
            group.create_task(read(reader))
        group.create_task(change())
    for reader in (cache, other_cache):
        assert await reader.read(ANA, "profile", "key", load) == b"75"


async def test_many_who_miss_at_once_load_once(cache: ReadCache) -> None:
    source = Source()
    source.hold()
    readers = [asyncio.create_task(cache.read(ANA, "profile", "key", source.load)) for _ in range(50)]
    await until(lambda: source.waiting == 1)
    source.release()
    assert await asyncio.gather(*readers) == [b"first"] * 50
    assert source.loads == 1
    assert cache._flights == {}


class LoadFailed(Exception):
    pass


@pytest.mark.parametrize("fault", ["failure", "cancelling"])
async def test_the_failure_of_one_is_not_the_failure_of_those_who_waited(
    cache: ReadCache, fault: str
) -> None:
    begun, fail = asyncio.Event(), asyncio.Event()

    async def failing() -> bytes:
        begun.set()
        await fail.wait()
        raise LoadFailed

    first = asyncio.create_task(cache.read(ANA, "profile", "key", failing))
    await begun.wait()
    source = Source()
    others = [asyncio.create_task(cache.read(ANA, "profile", "key", source.load)) for _ in range(5)]
    await _all_waiting(cache, others)
    if fault == "failure":
        fail.set()
    else:
        first.cancel()
    assert await asyncio.gather(*others) == [b"first"] * 5
    with suppress(asyncio.CancelledError), pytest.raises(LoadFailed):
        await first
    assert cache._flights == {}
    assert await cache.read(ANA, "profile", "key", Source(b"loaded again").load) == b"first"


async def test_a_waiter_that_leaves_does_not_take_the_load_along(cache: ReadCache) -> None:
    source = Source()
    source.hold()
    first = asyncio.create_task(cache.read(ANA, "profile", "key", source.load))
    await until(lambda: source.waiting == 1)
    waiters = [asyncio.create_task(cache.read(ANA, "profile", "key", source.load)) for _ in range(2)]
    await _all_waiting(cache, waiters)
    waiters[0].cancel()
    await asyncio.wait([waiters[0]])
    source.release()
    assert (await first, await waiters[1]) == (b"first", b"first")
    assert source.loads == 1


async def test_what_is_too_large_is_loaded_every_time(redis_server: RedisServer, cache: ReadCache) -> None:
    source = Source(b"x" * (MAX_VALUE_BYTES + 1))
    for _ in range(2):
        assert await cache.read(ANA, "profile", "key", source.load) == source.value
    assert source.loads == 2


async def test_everything_in_redis_has_an_end_and_tells_nothing_by_its_name(
    redis_server: RedisServer, link: RedisLink
) -> None:
    cache = ReadCache(link, ttl_seconds=1)
    source = Source()
    with capture_logs() as logs:
        await cache.read(ANA, "profile", "a private question", source.load)
        async with redis_server.client() as operator:
            names = await operator.keys()
            assert len(names) == 2
            assert all(str(ANA).encode() in name and b"private" not in name for name in names)
            for name in names:
                assert 0 < await operator.pttl(name) <= 1000
            async with asyncio.timeout(30):
                while await operator.keys():
                    await asyncio.sleep(0.05)
        await cache.read(ANA, "profile", "a private question", source.load)
    assert source.loads == 2
    assert logs == []


async def test_without_redis_everything_is_loaded(no_link: RedisLink) -> None:
    cache, source = ReadCache(no_link), Source()
    for _ in range(2):
        assert await cache.read(ANA, "profile", "key", source.load) == b"first"
    await cache.forget(ANA, "profile")
    assert source.loads == 2


async def test_redis_killed_while_a_value_is_loaded_and_started_again(
    redis_server: RedisServer, link: RedisLink, cache: ReadCache
) -> None:
    source = Source()
    source.hold()
    reading = asyncio.create_task(cache.read(ANA, "profile", "key", source.load))
    await until(lambda: source.waiting == 1)
    redis_server.kill()
    source.release()
    assert await reading == b"first"
    assert not link.is_up
    assert await cache.read(ANA, "profile", "key", source.load) == b"first"
    assert source.loads == 2
    await redis_server.start()
    await until(lambda: link.is_up)
    for _ in range(2):
        assert await cache.read(ANA, "profile", "key", source.load) == b"first"
    assert source.loads == 3


async def test_what_changed_while_redis_was_away_is_not_found_in_it_afterwards(
    redis_server: RedisServer, link: RedisLink, cache: ReadCache
) -> None:
    """Frozen, not killed: it still holds the old value."""
    await cache.read(ANA, "profile", "key", Source(b"old").load)
    await cache.read(ANA, "rules", "key", Source(b"old").load)
    redis_server.freeze()
    assert not await link.publish("channel", "to notice that it is away")
    await cache.forget(ANA, "profile")
    redis_server.thaw()
    await until(lambda: link.is_up)
    assert await cache.read(ANA, "profile", "key", Source(b"new").load) == b"new"
    assert await cache.read(ANA, "rules", "key", Source(b"new").load) == b"old"
    assert await cache.read(ANA, "profile", "key", Source(b"loaded again").load) == b"new"


async def test_too_many_changes_to_remember_make_the_cache_rest_until_all_in_it_has_run_out(
    redis_server: RedisServer, link: RedisLink, other_cache: ReadCache
) -> None:
    cache = ReadCache(link, ttl_seconds=60)
    await cache.read(ANA, "profile", "key", Source(b"old").load)
    redis_server.freeze()
    await cache.forget(ANA, "profile")
    for _ in range(MAX_OWED):
        await cache.forget(uuid4(), "profile")
    redis_server.thaw()
    await until(lambda: link.is_up)
    for _ in range(2):
        source = Source(b"new")
        assert await cache.read(ANA, "profile", "key", source.load) == b"new"
        assert source.loads == 1


async def _all_waiting(cache: ReadCache, readers: list[asyncio.Task[bytes]]) -> None:
    """Until each reader has asked Redis and waits for the load that is under way."""
    [flight] = cache._flights.values()
    await until(lambda: len(flight._callbacks or ()) >= len(readers))
