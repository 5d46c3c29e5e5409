"""Carries events on to Redis, where there is one: to its subscribers, and to the cache.

One worker at a time, in order. Redis may be away for as long as it likes: it is told from where it was.
"""

from __future__ import annotations

import asyncio
import json

from recollect.db.listening import wake_ups
from recollect.db.tenancy import SERVICE, Tenancy
from recollect.events.models import Event
from recollect.events.service import Events, queries
from recollect.redis.cache import ReadCache
from recollect.redis.link import RedisLink

CHANNEL = "recollect:events"
USER_UPDATES = "user-updates"
"""Where applications have been listening for users who became premium."""
BATCH = 100


class Bridge:
    def __init__(
        self, tenancy: Tenancy, conninfo: str, events: Events, link: RedisLink, cache: ReadCache
    ) -> None:
        self._tenancy = tenancy
        self._conninfo = conninfo
        self._events = events
        self._link = link
        self._cache = cache

    async def watch(self) -> None:
        if not self._link.is_configured:
            await asyncio.Event().wait()
        async for _ in wake_ups(self._conninfo, "recollect_events"):
            while await self.carry() == BATCH:
                pass

    async def carry(self) -> int:
        """The next events, as far as Redis takes them; says how many."""
        if not self._link.is_up:
            return 0
        # Within the transaction, for once: its lock keeps two workers from telling things out of order,
        # and a call to Redis is short and bounded.
        async with self._tenancy.acting_as(SERVICE) as tx:
            await tx.run(queries.ensure_cursor, {"name": "redis"})
            begin = await tx.maybe(queries.lock_cursor, {"name": "redis"})
            if begin is None:
                return 0
            position, told = begin["position"], 0
            for event in await self._events.list(tx, after=position, limit=BATCH):
                if not await self._tell(event):
                    break
                position, told = event.position, told + 1
            if told:
                await tx.run(queries.move_cursor, {"name": "redis", "position": position})
            return told

    async def _tell(self, event: Event) -> bool:
        if event.user_id is not None:
            await self._cache.forget(event.user_id, event.type.partition(".")[0])
        if event.type == "user.updated" and "isPremium" in event.data:
            update = {"userId": str(event.user_id), "isPremium": event.data["isPremium"]}
            if not await self._link.publish(USER_UPDATES, json.dumps(update)):
                return False
        return await self._link.publish(CHANNEL, event.model_dump_json())
