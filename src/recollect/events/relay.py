"""Carries events from the outbox to those who listen. Each worker has one; they take turns."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from recollect.db.listening import wake_ups
from recollect.db.tenancy import SERVICE, Tenancy
from recollect.events.models import Subscription
from recollect.events.service import queries

BATCH = 500


class Relay:
    def __init__(self, tenancy: Tenancy, conninfo: str, subscriptions: Sequence[Subscription]) -> None:
        self._tenancy = tenancy
        self._conninfo = conninfo
        tasks = defaultdict[str, list[str]](list)
        for subscription in subscriptions:
            for event_type in subscription.types:
                tasks[event_type].append(subscription.task)
        self._parameters = {"batch": BATCH, "subscriptions": json.dumps(tasks)}

    async def watch(self) -> None:
        async for _ in wake_ups(self._conninfo, "recollect_outbox"):
            await self.relay()

    async def relay(self) -> int:
        """Everything that has been committed; says how many events."""
        relayed, batch = 0, BATCH
        # Whoever wrote meanwhile has sent a notice of their own: only a full batch means that more is here.
        while batch == BATCH:
            async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                batch = (await tx.one(queries.relay, self._parameters, last=True))["relayed"]
            relayed += batch
        return relayed
