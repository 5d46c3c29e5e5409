"""The link to Redis: used while it is there, never waited for while it is not."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from recollect.kit.loops import stop
from recollect.redis.link import RedisLink, UnusableRedisUrl
from tests.redis.server import PASSWORD, RedisServer, until

pytestmark = pytest.mark.anyio


@dataclass
class Listening:
    heard: list[bytes] = field(default_factory=list)
    joined: int = 0

    def on_joined(self) -> None:
        self.joined += 1


@asynccontextmanager
async def listening(link: RedisLink, channel: str) -> AsyncIterator[Listening]:
    found = Listening()

    async def listen() -> None:
        async with aclosing(link.subscribe(channel, found.on_joined)) as messages:
            async for message in messages:
                found.heard.append(message)

    task = asyncio.create_task(listen())
    try:
        await until(lambda: found.joined > 0)
        yield found
    finally:
        await stop(task)


async def test_without_an_address_everything_is_a_no_op(no_link: RedisLink) -> None:
    assert not no_link.is_configured
    assert not no_link.is_up
    assert await no_link.call(lambda redis: redis.ping()) is None
    assert await no_link.run("return 1", [], []) is None
    assert not await no_link.publish("channel", "message")
    assert [message async for message in no_link.subscribe("channel")] == []


@pytest.mark.parametrize(
    "url",
    [
        f"http://:{PASSWORD}@localhost",
        f"redis://localhost:{PASSWORD}",
        f"redis://:{PASSWORD}@localhost/0?no_such_option=1",
        f"redis://:{PASSWORD}@localhost/0?socket_timeout={PASSWORD}",
        f"redis://[{PASSWORD}",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(UnusableRedisUrl) as refusal:
        RedisLink(url)
    told = "".join(traceback.format_exception_only(refusal.value))
    assert "redis://user:password@host" in told
    assert PASSWORD not in told
    assert refusal.value.__suppress_context__


async def test_a_redis_that_starts_later_is_found(redis_server: RedisServer) -> None:
    redis_server.kill()
    async with RedisLink(redis_server.url) as link:
        assert not link.is_up
        assert not await link.publish("channel", "message")
        await redis_server.start()
        await until(lambda: link.is_up)
        assert await link.publish("channel", "message")


async def test_while_redis_is_away_it_is_not_even_asked(redis_server: RedisServer, link: RedisLink) -> None:
    asked = 0

    async def ask(redis: Redis) -> bool:
        nonlocal asked
        asked += 1
        return bool(await redis.ping())

    assert await link.call(ask) is True
    redis_server.freeze()
    assert await link.call(ask) is None
    assert not link.is_up
    assert [await link.call(ask) for _ in range(100)] == [None] * 100
    assert asked == 2
    redis_server.thaw()
    await until(lambda: link.is_up)
    assert await link.call(ask) is True


async def test_a_crowd_of_callers_outlives_a_redis_that_hangs(
    redis_server: RedisServer, link: RedisLink
) -> None:
    redis_server.freeze()
    answers = await asyncio.gather(*(link.call(lambda redis: redis.ping()) for _ in range(500)))
    assert answers == [None] * 500


async def test_a_crowd_of_callers_is_answered(link: RedisLink) -> None:
    answers = await asyncio.gather(*(link.publish("channel", "message") for _ in range(500)))
    assert all(answers)
    assert link.is_up


async def test_going_and_coming_are_logged_once_each_and_the_address_never(redis_server: RedisServer) -> None:
    with capture_logs() as logs:
        async with RedisLink(redis_server.url) as link:
            redis_server.kill()
            await asyncio.gather(*(link.call(lambda redis: redis.ping()) for _ in range(50)))
            assert not link.is_up
            await redis_server.start()
            await until(lambda: link.is_up)
    assert [entry["event"] for entry in logs] == [
        "redis is there",
        "redis is away, going on without it",
        "redis is there",
    ]
    assert PASSWORD not in str(logs)
    assert "127.0.0.1" not in str(logs)


async def test_a_wrong_password_is_an_absence_and_stays_out_of_the_log(redis_server: RedisServer) -> None:
    with capture_logs() as logs:
        async with RedisLink(redis_server.url.replace(PASSWORD, "wrong-one")) as link:
            assert not await link.publish("channel", "message")
    assert [entry["error"] for entry in logs] == ["AuthenticationError"]
    assert "wrong-one" not in str(logs)


async def test_a_refusal_is_no_absence_and_is_logged_once_without_its_words(link: RedisLink) -> None:
    with capture_logs() as logs:
        for _ in range(3):
            assert (
                await link.call(lambda redis: redis.eval("return redis.error_reply('ERR private')", 0))
                is None
            )
    assert link.is_up
    assert [entry["event"] for entry in logs] == ["redis refuses, going on without it"]
    assert "private" not in str(logs)


async def test_a_cancelled_call_leaves_nothing_to_the_next(link: RedisLink) -> None:
    for turn in range(20):
        asking = asyncio.create_task(link.call(lambda redis, turn=turn: redis.echo(f"cancelled {turn}")))  # type: ignore[misc]
        for _ in range(turn % 10):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        assert await link.call(lambda redis, turn=turn: redis.echo(f"{turn}")) == f"{turn}".encode()  # type: ignore[misc]
    assert link.is_up


async def test_a_script_is_known_again_after_a_restart(redis_server: RedisServer, link: RedisLink) -> None:
    script = "return {KEYS[1], ARGV[1]}"
    assert await link.run(script, ["k"], ["a"]) == [b"k", b"a"]
    redis_server.kill()
    assert await link.run(script, ["k"], ["a"]) is None
    await redis_server.start()
    await until(lambda: link.is_up)
    assert await link.run(script, ["k"], ["a"]) == [b"k", b"a"]


async def test_what_is_published_is_heard_by_all_who_listen(link: RedisLink, other_link: RedisLink) -> None:
    async with listening(link, "news") as here, listening(other_link, "news") as there:
        for number in range(3):
            assert await link.publish("news", f"message {number}")
        await link.publish("other news", "unheard")
        await until(lambda: len(here.heard) == len(there.heard) == 3)
    assert here.heard == there.heard == [b"message 0", b"message 1", b"message 2"]


async def test_publishing_and_listening_go_on_after_redis_was_killed(
    redis_server: RedisServer, link: RedisLink, other_link: RedisLink
) -> None:
    async with listening(link, "news") as listener:
        assert await other_link.publish("news", "before")
        await until(lambda: listener.heard == [b"before"])
        redis_server.kill()
        assert not await other_link.publish("news", "lost")
        await redis_server.start()
        await until(lambda: listener.joined == 2 and other_link.is_up)
        assert await other_link.publish("news", "after")
        await until(lambda: len(listener.heard) == 2)
    assert listener.heard == [b"before", b"after"]


async def test_a_listener_whose_connection_is_cut_joins_again_and_disturbs_nobody(
    redis_server: RedisServer, link: RedisLink
) -> None:
    with capture_logs() as logs:
        async with listening(link, "news") as listener, redis_server.client() as operator:
            await operator.client_kill_filter(_type="pubsub")
            await until(lambda: listener.joined == 2)
            assert await link.publish("news", "after")
            await until(lambda: listener.heard == [b"after"])
    assert logs == []


async def test_a_listener_that_keeps_waiting_is_not_cut_off(link: RedisLink) -> None:
    """The timeouts of a call do not apply to listening."""
    async with listening(link, "news") as listener:
        await asyncio.sleep(1)
        assert listener.joined == 1
        await link.publish("news", "late")
        await until(lambda: listener.heard == [b"late"])


@pytest.mark.parametrize("is_away", [False, True])
async def test_listening_ends_with_the_link(redis_server: RedisServer, is_away: bool) -> None:
    link = RedisLink(redis_server.url)
    heard: list[bytes] = []
    joined = asyncio.Event()

    async def listen() -> None:
        async for message in link.subscribe("news", joined.set):
            heard.append(message)  # noqa: PERF401 - it is about the loop ending

    async with asyncio.timeout(30), asyncio.TaskGroup() as group, link:
        group.create_task(listen())
        await joined.wait()
        if is_away:
            redis_server.kill()
            await until(lambda: not link.is_up)
    assert heard == []
    assert await link.call(lambda redis: redis.ping()) is None
