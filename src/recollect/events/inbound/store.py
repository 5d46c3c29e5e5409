"""What has been received, and what it changes."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Literal
from uuid import UUID

from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction

queries = Queries(__package__)

Upgrade = Literal["done", "unknown_user", "no_profile"]


async def is_new(tx: Transaction, source: str, sent_id: str) -> bool:
    """Whether nobody has sent this before. Who sends it at the same time waits until we are done."""
    return await tx.maybe(queries.record, {"source": source, "id": sent_id}) is not None


async def unrecord(tx: Transaction, source: str, sent_id: str) -> None:
    """As if it had not come: sent again, it is new."""
    await tx.run(queries.unrecord, {"source": source, "id": sent_id})


async def is_news(tx: Transaction, source: str, subject: str, fingerprint: bytes, within: timedelta) -> bool:
    """Whether this is not what was said last about the subject: for senders who number nothing."""
    parameters = {"source": source, "id": subject, "fingerprint": fingerprint, "within": within}
    return await tx.maybe(queries.record_latest, parameters) is not None


async def make_premium(tx: Transaction, user_id: UUID) -> Upgrade:
    row = await tx.one(queries.make_premium, {"user_id": user_id})
    outcome: Upgrade = row["outcome"]
    return outcome


async def publish(tx: Transaction, kind: str, subject: str, data: dict[str, str | None]) -> None:
    await tx.run(queries.publish, {"type": kind, "subject": subject, "data": json.dumps(data)})


async def forget(tx: Transaction, older_than: timedelta, batch: int) -> int:
    return await tx.run(queries.forget, {"age": older_than, "batch": batch}, last=True)
