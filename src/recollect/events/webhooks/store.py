"""Rows of endpoints and deliveries, and the secrets that are sealed in them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction
from recollect.events.webhooks.sending import Outcome
from recollect.kit.secret import ServerSecret, fingerprint

queries = Queries(__package__)


@dataclass(frozen=True)
class Due:
    """A delivery that is to be attempted now."""

    id: UUID
    endpoint_id: UUID
    url: str
    payload: dict[str, Any]
    attempt: int
    age: timedelta
    """Since it was wanted: for the first time, or again."""
    sealed_secrets: tuple[bytes, ...]


class SecretBox:
    """Seals an endpoint's secret to that endpoint: moved to another row, it does not open."""

    def __init__(self, secret: ServerSecret) -> None:
        self._secret = secret

    def seal(self, endpoint_id: UUID, plain: str) -> bytes:
        return self._secret.seal(plain.encode(), _context(endpoint_id))

    def unseal(self, endpoint_id: UUID, sealed: bytes) -> str:
        return self._secret.unseal(sealed, _context(endpoint_id)).decode()


def _context(endpoint_id: UUID) -> bytes:
    return fingerprint(b"webhook secret", endpoint_id.bytes)


async def take_due(tx: Transaction, endpoint_id: UUID, *, batch: int, lease: timedelta) -> list[Due]:
    parameters = {"endpoint_id": endpoint_id, "batch": batch, "lease": lease}
    return [_due(row) for row in await tx.all(queries.take_due, parameters)]


def _due(row: DictRow) -> Due:
    sealed = (row["sealed_secret"], row["former_sealed_secret"])
    return Due(
        id=row["id"],
        endpoint_id=row["endpoint_id"],
        url=row["url"],
        payload=row["payload"],
        attempt=row["attempt"],
        age=row["age"],
        sealed_secrets=tuple(bytes(each) for each in sealed if each is not None),
    )


async def record_attempt(tx: Transaction, due: Due, outcome: Outcome, delay: timedelta | None) -> None:
    """Keep how it went. Without a delay until the next attempt, there is none."""
    given_up = "delivered" if outcome.is_delivered else "failed"
    await tx.run(
        queries.record_attempt,
        {
            "id": due.id,
            "attempt": due.attempt,
            "state": given_up if delay is None else "pending",
            "delay": delay,
            "status": outcome.status,
            "error": outcome.error,
            # Text in Postgres holds no NUL; the sender has dropped it with all that cannot be printed.
            "answer": outcome.answer,
            "took_ms": outcome.took_ms,
        },
    )


async def next_due(tx: Transaction, endpoint_id: UUID) -> datetime | None:
    row = await tx.one(queries.next_due, {"endpoint_id": endpoint_id})
    at: datetime | None = row["at"]
    return at
