"""A cache for hot reads. What it holds is a tenant's own, forgotten by kind, and never outlives its time.

Every tenant and kind has a generation, a random word made when it is first asked for. A value is stored only
if the generation is still the one under which its loading began, and forgetting removes the generation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from secrets import token_hex
from uuid import UUID

from recollect.kit.secret import fingerprint
from recollect.redis.link import RedisLink

MAX_VALUE_BYTES = 1_000_000
MAX_OWED = 10_000

Load = Callable[[], Awaitable[bytes]]

# A value carries its generation in front: without that, what was forgotten would be found again.
_READ = """
local generation = redis.call('GET', KEYS[1])
if not generation then
  generation = ARGV[1]
  redis.call('SET', KEYS[1], generation, 'PX', ARGV[2])
end
local stored = redis.call('GET', KEYS[2])
if stored and string.sub(stored, 1, #generation) == generation then
  return {generation, string.sub(stored, #generation + 1)}
end
return {generation}
"""
_STORE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[1] .. ARGV[3], 'PX', ARGV[2])
return 1
"""


class ReadCache:
    """Only for what depends on tenant, kind and key alone. Call ``forget`` after the change is committed."""

    def __init__(self, link: RedisLink, ttl_seconds: float = 60) -> None:
        self._link = link
        self._ttl_ms = round(ttl_seconds * 1000)
        self._flights: dict[tuple[str, bytes], asyncio.Future[bytes | None]] = {}
        self._owed: dict[str, object] = {}
        self._silent_until = 0.0

    @property
    def is_configured(self) -> bool:
        return self._link.is_configured

    async def read(self, tenant: UUID, kind: str, key: str, load: Load) -> bytes:
        names = [_name(tenant, kind), _name(tenant, kind, key)]
        found = await self._look(names)
        if found is None:
            return await load()
        generation, *values = found
        if values:
            return bytes(values[0])
        # By generation: who asks after a change must not be given what was being loaded before it.
        flight = (names[1], generation)
        if (under_way := self._flights.get(flight)) is not None:
            shared = await asyncio.shield(under_way)
            if shared is not None:
                return shared
            # The other's failure was its own: a deadline, a client that left.
            return await self._load(names, generation, load)
        return await self._load_for_all(flight, names, load)

    async def forget(self, tenant: UUID, kind: str) -> None:
        """All values of a kind. If Redis is away, this is made up for before the cache is used again."""
        if not self._link.is_configured:
            return
        name = _name(tenant, kind)
        self._owed[name] = object()  # tells this debt from an earlier one that is just being paid
        if len(self._owed) > MAX_OWED:
            # Too much to remember; by then everything in the cache has run out.
            self._silent_until = time.monotonic() + self._ttl_ms / 1000
            self._owed.clear()
            return
        await self._settle()

    async def _look(self, names: list[str]) -> list[bytes] | None:
        if time.monotonic() < self._silent_until or not await self._settle():
            return None
        found: list[bytes] | None = await self._link.run(_READ, names, [token_hex(8), self._ttl_ms])
        return found

    async def _settle(self) -> bool:
        """Whether all that had to be forgotten is."""
        if not self._owed:
            return True
        if not self._link.is_up:
            return False
        owed = dict(self._owed)
        if await self._link.call(lambda redis: redis.unlink(*owed)) is None:
            return False
        for name, debt in owed.items():
            if self._owed.get(name) is debt:
                del self._owed[name]
        return True

    async def _load_for_all(self, flight: tuple[str, bytes], names: list[str], load: Load) -> bytes:
        landed: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._flights[flight] = landed
        try:
            value = await load()
            landed.set_result(value)
            await self._store(names, flight[1], value)
        finally:
            del self._flights[flight]
            if not landed.done():
                landed.set_result(None)
        return value

    async def _load(self, names: list[str], generation: bytes, load: Load) -> bytes:
        value = await load()
        await self._store(names, generation, value)
        return value

    async def _store(self, names: list[str], generation: bytes, value: bytes) -> None:
        if len(value) <= MAX_VALUE_BYTES:
            await self._link.run(_STORE, names, [generation, self._ttl_ms, value])


def _name(tenant: UUID, *parts: str) -> str:
    # Braces keep a tenant's keys on one node of a cluster. Names may be private, so they are digests.
    digest = fingerprint(*(part.encode() for part in parts)).hex()[:32]
    return f"recollect:cache:{{{tenant}}}:{digest}"
