"""The rate limit: the same statements with Redis and without."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.redis.limits import MAX_KEYS, SLOTS, RateLimiter, Verdict
from recollect.redis.link import RedisLink
from tests.redis.server import RedisServer, until

pytestmark = pytest.mark.anyio

Take = Callable[[str], Awaitable[Verdict]]
MakeTake = Callable[..., Take]


@pytest.fixture(params=["redis", "process"])
def limiting(request: pytest.FixtureRequest) -> MakeTake:
    """``limiting(3)`` takes from an allowance of three. With Redis each take is of a limiter of its own,
    as if of another process, so that nothing but Redis can have counted."""
    if request.param == "process":
        no_link: RedisLink = request.getfixturevalue("no_link")
        return lambda limit, seconds=60: RateLimiter(no_link, limit, window_seconds=seconds).take
    link: RedisLink = request.getfixturevalue("link")
    return lambda limit, seconds=60: lambda key: RateLimiter(link, limit, window_seconds=seconds).take(key)


async def test_as_many_as_the_limit_are_let_through_and_no_more(limiting: MakeTake) -> None:
    take = limiting(3)
    verdicts = [await take("ana") for _ in range(5)]
    assert [verdict.allowed for verdict in verdicts] == [True] * 3 + [False] * 2
    assert [verdict.remaining for verdict in verdicts] == [2, 1, 0, 0, 0]
    assert [verdict.retry_after for verdict in verdicts[:3]] == [0, 0, 0]
    assert all(1 <= verdict.retry_after <= 61 for verdict in verdicts[3:])
    assert all(0 < verdict.resets_in <= 61 for verdict in verdicts)


async def test_each_key_has_its_own_allowance(limiting: MakeTake) -> None:
    take = limiting(1)
    assert (await take("ana")).allowed
    assert (await take("ben")).allowed
    assert not (await take("ana")).allowed


async def test_a_crowd_at_once_gets_exactly_the_limit(limiting: MakeTake) -> None:
    take = limiting(10)
    verdicts = await asyncio.gather(*(take("ana") for _ in range(100)))
    assert sum(verdict.allowed for verdict in verdicts) == 10


async def test_who_keeps_asking_is_let_through_again_in_time(limiting: MakeTake) -> None:
    """What was refused does not count, or asking would put off its own success for ever."""
    take = limiting(2, 0.6)
    await take("ana")
    await take("ana")
    async with asyncio.timeout(30):
        while not (await take("ana")).allowed:
            await asyncio.sleep(0.01)


async def test_no_window_ever_holds_more_than_the_limit(limiting: MakeTake) -> None:
    limit, window, order = 7, 0.6, random.Random(1)
    take = limiting(limit, window)
    recent: deque[float] = deque(maxlen=limit)
    allowed = 0
    async with asyncio.timeout(60):
        while allowed < 5 * limit:
            before = time.time()
            if (await take("ana")).allowed:
                # The times of asking and of being answered lie around the time that was counted.
                if len(recent) == limit:
                    assert time.time() - recent[0] >= window
                recent.append(before)
                allowed += 1
            await asyncio.sleep(order.choice([0, 0.001, 0.02, 0.1]))


@given(
    limit=st.integers(1, 5),
    pauses=st.lists(st.floats(0, 40, allow_nan=False), min_size=1, max_size=60),
)
async def test_by_any_clock_no_window_holds_more_and_none_is_refused_without_reason(
    limit: int, pauses: list[float]
) -> None:
    now = 1000.0
    limiter = RateLimiter(RedisLink(None), limit, clock=lambda: now)
    taken: list[float] = []
    for pause in pauses:
        now += pause
        verdict = await limiter.take("ana")
        if verdict.allowed:
            taken.append(now)
            assert sum(now - each < 60 for each in taken) <= limit
        else:
            assert sum(now - each <= 61 for each in taken) >= limit
            # Retry-After is kept: then it is let through.
            now += verdict.retry_after
            assert (await limiter.take("ana")).allowed
            taken.append(now)


async def test_a_key_takes_little_room_in_redis_and_is_gone_after_its_window(
    redis_server: RedisServer, link: RedisLink
) -> None:
    limiter = RateLimiter(link, 10_000, window_seconds=0.6)
    for _ in range(300):
        await limiter.take("ana")
        await asyncio.sleep(0.004)
    async with redis_server.client() as operator:
        [key] = await operator.keys()
        assert 1 < await operator.hlen(key) <= SLOTS + 1
        assert 0 < await operator.pttl(key) <= 610
        async with asyncio.timeout(30):
            while await operator.keys():
                await asyncio.sleep(0.05)


async def test_counts_from_before_a_clock_was_set_back_do_not_stay(
    redis_server: RedisServer, link: RedisLink
) -> None:
    limiter = RateLimiter(link, 2)
    async with redis_server.client() as operator:
        seconds, _ = await operator.time()
        await operator.hset("recollect:limit:ana", str(seconds + 3600), "2")
    assert (await limiter.take("ana")).allowed


async def test_in_a_process_old_keys_make_room(no_link: RedisLink) -> None:
    now = 1000.0
    limiter = RateLimiter(no_link, 1, clock=lambda: now)
    await limiter.take("the oldest")
    for number in range(MAX_KEYS + 500):
        await limiter.take(f"{number}")
    held = limiter._own._counts
    assert len(held) == MAX_KEYS
    assert (await limiter.take("the oldest")).allowed
    assert not (await limiter.take(f"{MAX_KEYS}")).allowed
    now += 62
    await limiter.take("the newest")
    assert list(held) == ["the newest"]


async def test_two_limiters_on_one_redis_share_an_allowance(link: RedisLink, other_link: RedisLink) -> None:
    here, there = RateLimiter(link, 4), RateLimiter(other_link, 4)
    verdicts = [await limiter.take("ana") for limiter in (here, there, here, there, here, there)]
    assert [verdict.allowed for verdict in verdicts] == [True] * 4 + [False] * 2
    assert [verdict.remaining for verdict in verdicts] == [3, 2, 1, 0, 0, 0]


async def test_two_limiters_without_redis_do_not(no_link: RedisLink) -> None:
    here, there = RateLimiter(no_link, 1), RateLimiter(no_link, 1)
    assert (await here.take("ana")).allowed
    assert (await there.take("ana")).allowed


@pytest.mark.parametrize("fault", ["kill", "freeze"])
async def test_a_redis_that_goes_and_comes_back_gives_no_fresh_allowance(
    redis_server: RedisServer, link: RedisLink, fault: str
) -> None:
    limiter = RateLimiter(link, 12)

    async def take(count: int) -> int:
        return sum([(await limiter.take("ana")).allowed for _ in range(count)])

    assert await take(4) == 4
    if fault == "kill":
        redis_server.kill()
    else:
        redis_server.freeze()
    assert await take(4) == 4
    assert not link.is_up
    if fault == "kill":
        await redis_server.start()
    else:
        redis_server.thaw()
    await until(lambda: link.is_up)
    assert await take(10) == 4


async def test_limits_are_shared_again_when_redis_is_back(
    redis_server: RedisServer, link: RedisLink, other_link: RedisLink
) -> None:
    here, there = RateLimiter(link, 3), RateLimiter(other_link, 3)
    redis_server.kill()
    assert (await here.take("ana")).allowed
    assert (await there.take("ana")).allowed
    await redis_server.start()
    await until(lambda: link.is_up and other_link.is_up)
    assert [(await limiter.take("ben")).allowed for limiter in (here, there, here, there)] == [
        True,
        True,
        True,
        False,
    ]
