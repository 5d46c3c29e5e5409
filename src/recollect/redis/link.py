"""The way to Redis, which may be away at any time: then nobody waits for it, and everything goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as NoAnswer

from recollect.errors import Misconfigured
from recollect.kit.logs import logger

STEP_SECONDS = 0.3
"""For connecting, and for an answer."""
CALL_SECONDS = 0.6
"""For a whole call, whatever the address says about timeouts."""
CALLS_AT_ONCE = 32
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 10.0

# A replica that still answers is away too: it takes no writes, and a new connection may find its master.
_AWAY = (NotConnected, NoAnswer, ReadOnlyError, OSError)
_FAILURES = (RedisError, OSError)

log = logger("redis")
T = TypeVar("T")
Message = str | bytes


class UnusableRedisUrl(Misconfigured):
    """REDIS_URL cannot be read; write it as redis://user:password@host:6379/0, rediss:// for TLS."""

    code = "unusable_redis_url"


class RedisLink:
    """Without an address every call is a no-op, so that callers need not ask whether there is one."""

    def __init__(self, url: str | None) -> None:
        self._redis = None if url is None else _client(url)
        self._scripts: dict[str, AsyncScript] = {}
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE)
        self._up = asyncio.Event()
        self._up_since = time.monotonic()
        self._pause = FIRST_PAUSE
        self._recovery: asyncio.Task[None] | None = None
        self._refusals: set[str] = set()
        self._is_closed = False

    @property
    def is_configured(self) -> bool:
        return self._redis is not None

    @property
    def is_up(self) -> bool:
        return self._up.is_set() and not self._is_closed

    async def __aenter__(self) -> Self:
        if self._redis is not None:
            try:
                await self._ping(self._redis)
            except _FAILURES as error:
                self._went_away(error)
            else:
                self._came_up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True
        self._up.set()  # whoever waits for Redis learns that there is nothing left to wait for
        if self._recovery is not None:
            self._recovery.cancel()
            await asyncio.wait([self._recovery])
        if self._redis is not None:
            with suppress(*_FAILURES):
                await self._redis.aclose()

    async def call(self, command: Callable[[Redis], Awaitable[T]]) -> T | None:
        """What Redis answers, or None: it is away, or it refuses. Never waits for one that is away."""
        if self._redis is None or not self._up.is_set():
            return None
        # Waiting for a turn is not Redis's fault, so that time is not counted against it.
        async with self._turns:
            if not self.is_up:
                return None
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    return await command(self._redis)
            except _AWAY as error:
                self._went_away(error)
            except RedisError as error:
                self._refused(error)
        return None

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[Message | int]) -> Any | None:
        """A Lua script's answer, or None as in ``call``; so a script itself should not answer nil."""
        if self._redis is None:
            return None
        if script not in self._scripts:
            self._scripts[script] = self._redis.register_script(script)
        prepared = self._scripts[script]
        return await self.call(lambda _: prepared(keys, arguments))

    async def publish(self, channel: str, message: Message) -> bool:
        """Whether Redis took the message. It keeps none: who does not listen now will not hear it."""
        return await self.call(lambda redis: redis.publish(channel, message)) is not None

    async def subscribe(
        self, channel: str, on_joined: Callable[[], None] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """What is published, until the link is closed; nothing, if Redis is not configured.

        Messages sent while Redis was away are lost: ``on_joined`` is called whenever listening begins, the
        first time and again, for those who have to catch up. Leave it early through ``aclosing``.
        """
        while self._redis is not None and not self._is_closed:
            await self._up.wait()
            has_joined = False
            try:
                async with self._redis.pubsub() as listener:
                    await listener.subscribe(channel)
                    async for message in listener.listen():
                        if message["type"] == "message":
                            yield message["data"]
                        elif message["type"] == "subscribe":
                            has_joined = True
                            if on_joined is not None:
                                on_joined()
            except _AWAY:
                # It may be this one connection that broke; asking tells.
                await self.call(self._ping)
            except RedisError as error:
                self._refused(error)
            if not has_joined and not self._is_closed:
                await asyncio.sleep(FIRST_PAUSE)

    @staticmethod
    async def _ping(redis: Redis) -> bool:
        async with asyncio.timeout(CALL_SECONDS):
            await redis.ping()
        return True

    def _came_up(self) -> None:
        self._up_since = time.monotonic()
        self._refusals.clear()
        self._up.set()
        log.info("redis is there")

    def _went_away(self, error: Exception) -> None:
        if self._is_closed or self._recovery is not None:
            return
        self._up.clear()
        # One that comes and goes is tried ever more rarely; one that had stayed, soon.
        if time.monotonic() - self._up_since > LONGEST_PAUSE:
            self._pause = FIRST_PAUSE
        log.warning("redis is away, going on without it", error=type(error).__name__)
        self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        assert self._redis is not None  # noqa: S101 - only what was there can have gone away
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            try:
                # Idle connections may lead to nowhere, and each would take a timeout to find out.
                await self._redis.connection_pool.disconnect(inuse_connections=False)
                await self._ping(self._redis)
            except _FAILURES:
                continue
            break
        self._recovery = None
        self._came_up()

    def _refused(self, error: RedisError) -> None:
        # Once for each kind: a full Redis refuses every write. Its words may quote values, its kind not.
        kind = type(error).__name__
        if kind not in self._refusals:
            self._refusals.add(kind)
            log.warning("redis refuses, going on without it", error=kind)


def _client(url: str) -> Redis:
    try:
        client = Redis.from_url(
            url,
            socket_connect_timeout=STEP_SECONDS,
            socket_timeout=STEP_SECONDS,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            # Calls take turns, so this bounds nothing but subscribers.
            max_connections=10_000,
        )
        # Options that no connection knows would show only when the first one is made.
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]  # theirs has no types
    except (ValueError, TypeError):
        # What they say quotes the address, password and all.
        raise UnusableRedisUrl from None
    return client
