"""Publishing events and reading them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from recollect.db.queries import Queries
from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.events.models import TYPES, Event, matches

PAGE = 100
PURGE_BATCH = 5_000

queries = Queries(__package__)


class Events:
    def __init__(self, keep_days: int) -> None:
        self._keep = timedelta(days=keep_days)

    async def publish(
        self,
        tx: Transaction,
        type: str,  # noqa: A002 - what everybody calls it
        subject: str,
        data: Mapping[str, Any],
        *,
        user_id: UUID | None = None,
        workspace_id: UUID | None = None,
        company_id: UUID | None = None,
    ) -> None:
        """Tell that something happened, if and when the transaction stands. Those may hear it who are named:
        a user, the members of a workspace, of a company. Never put contents into ``data``."""
        await tx.run(
            queries.publish,
            {
                "type": type,
                "subject": subject,
                "data": json.dumps(data),
                "user_id": user_id,
                "workspace_id": workspace_id,
                "company_id": company_id,
            },
        )

    async def latest(
        self,
        tx: Transaction,
        *,
        before: int | None = None,
        after: int = 0,
        types: Sequence[str] = ("*",),
        limit: int = PAGE,
    ) -> list[Event]:
        """Events that the caller may hear, the newest first."""
        exact = [known for known in TYPES if matches(known, types)]
        parameters = {
            "before": before,
            "after": after,
            "types": None if "*" in types else exact,
            "limit": limit,
        }
        query = queries.latest_of_all_events if tx.caller is SERVICE else queries.latest_events
        return [Event(**row) for row in await tx.all(query, parameters, last=True)]

    async def list(
        self, tx: Transaction, *, after: int = 0, types: Sequence[str] | None = None, limit: int = PAGE
    ) -> list[Event]:
        """Events that the caller may hear, in their order."""
        parameters = {"after": after, "types": list(types) if types else None, "limit": limit}
        query = queries.list_all_events if tx.caller is SERVICE else queries.list_events
        return [Event(**row) for row in await tx.all(query, parameters, last=True)]

    async def purge(self, tenancy: Tenancy) -> int:
        """Forget what was told long ago."""
        purged, gone = 0, PURGE_BATCH
        while gone == PURGE_BATCH:
            async with tenancy.acting_as(SERVICE) as tx:
                parameters = {"age": self._keep, "batch": PURGE_BATCH}
                gone = await tx.run(queries.purge_events, parameters, last=True)
            purged += gone
        return purged
