"""So many requests per minute for each caller: one count for all processes in Redis, else one in each.

The window slides in sixtieths. A request counts until the sixtieth it fell into is a whole window old,
so that no window whatever holds more than the limit, and a caller takes up 61 small numbers at most.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from recollect.redis.link import RedisLink

SLOTS = 60
MAX_KEYS = 50_000

# By Redis's own clock, since those of several servers differ. Slots ahead of it are from before it was
# set back.
_TAKE = """
local limit, slot_ms, slots = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local now = math.floor(now_ms / slot_ms)
local counts = redis.call('HGETALL', KEYS[1])
local used, oldest = 0, now
for i = 1, #counts, 2 do
  local slot = tonumber(counts[i])
  if slot < now - slots or slot > now then
    redis.call('HDEL', KEYS[1], counts[i])
  else
    used = used + tonumber(counts[i + 1])
    oldest = math.min(oldest, slot)
  end
end
local allowed = 0
if used < limit then
  allowed, used = 1, used + 1
  redis.call('HINCRBY', KEYS[1], string.format('%d', now), 1)
  redis.call('PEXPIRE', KEYS[1], slot_ms * (slots + 1))
end
return {allowed, limit - used, (oldest + slots + 1) * slot_ms - now_ms}
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    allowed: bool
    remaining: int
    resets_in: float
    """Seconds until the oldest of what was counted counts no more."""

    @property
    def retry_after(self) -> int:
        """Whole seconds after which asking again makes sense."""
        return 0 if self.allowed else max(1, math.ceil(self.resets_in))


class RateLimiter:
    def __init__(
        self,
        link: RedisLink,
        per_minute: int,
        *,
        window_seconds: float = 60,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = per_minute
        self._link = link
        self._slot_ms = max(1, round(window_seconds * 1000 / SLOTS))
        self._own = _OwnCounts(per_minute, self._slot_ms, clock)

    async def take(self, key: str) -> Verdict:
        # This process alone may have let enough through already; then Redis need not be asked.
        own = self._own.look(key)
        if not own.allowed:
            return own
        shared = await self._take_shared(key)
        if shared is not None and not shared.allowed:
            return shared
        # Counted here as well: a Redis that goes away or forgets does not hand out a fresh allowance.
        own = self._own.take(key)
        return own if shared is None or own.remaining < shared.remaining else shared

    async def _take_shared(self, key: str) -> Verdict | None:
        answer = await self._link.run(_TAKE, [f"recollect:limit:{key}"], [self.limit, self._slot_ms, SLOTS])
        if answer is None:
            return None
        allowed, remaining, resets_in_ms = answer
        return Verdict(bool(allowed), max(0, remaining), resets_in_ms / 1000)


class _OwnCounts:
    """The same in this process's memory. Keys unused for a window are dropped, and the longest unused
    when there are too many."""

    def __init__(self, limit: int, slot_ms: int, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._slot_ms = slot_ms
        self._clock = clock
        # Ordered by last use; the counts of a key by slot, oldest first.
        self._counts: OrderedDict[str, dict[int, int]] = OrderedDict()

    def look(self, key: str) -> Verdict:
        now = self._now_ms()
        return self._verdict(self._counts.get(key, {}), now, taking=0)

    def take(self, key: str) -> Verdict:
        now = self._now_ms()
        counts = self._counts.setdefault(key, {})
        verdict = self._verdict(counts, now, taking=1)
        if verdict.allowed:
            slot = now // self._slot_ms
            counts[slot] = counts.get(slot, 0) + 1
            self._counts.move_to_end(key)
        self._drop_old(now)
        return verdict

    def _verdict(self, counts: dict[int, int], now_ms: int, *, taking: int) -> Verdict:
        now = now_ms // self._slot_ms
        while counts and (first := next(iter(counts))) < now - SLOTS:
            del counts[first]
        used = sum(counts.values())
        allowed = used < self._limit
        oldest = next(iter(counts), now)
        remaining = self._limit - used - (taking if allowed else 0)
        return Verdict(allowed, remaining, ((oldest + SLOTS + 1) * self._slot_ms - now_ms) / 1000)

    def _drop_old(self, now_ms: int) -> None:
        first_counted = now_ms // self._slot_ms - SLOTS
        while self._counts:
            key, counts = next(iter(self._counts.items()))
            is_old = not counts or next(reversed(counts)) < first_counted
            if not is_old and len(self._counts) <= MAX_KEYS:
                return
            del self._counts[key]

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
