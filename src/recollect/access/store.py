"""Rows of access, read and written."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from recollect.access.models import ApiKey, NewKey, Session, User
from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction

queries = Queries(__package__)


async def find_user(tx: Transaction, *, email: str | None = None, user_id: UUID | None = None) -> User | None:
    row = await tx.maybe(queries.find_user, {"email": email, "user_id": user_id})
    return User(**row) if row else None


async def list_users(tx: Transaction, after: str, limit: int) -> list[User]:
    rows = await tx.all(queries.list_users, {"after": after, "limit": limit}, last=True)
    return [User(**row) for row in rows]


async def first_admin(tx: Transaction) -> User | None:
    row = await tx.maybe(queries.first_admin)
    return User(**row) if row else None


async def add_user(tx: Transaction, email: str, full_name: str | None) -> UUID:
    row = await tx.one(queries.add_user, {"email": email, "full_name": full_name})
    user_id: UUID = row["id"]
    return user_id


async def count_attempt(
    tx: Transaction, subject: bytes, window: timedelta, allowed: int
) -> tuple[datetime | None, int]:
    """When the attempt was noted, or None and the seconds until there is room for another."""
    await tx.run(queries.lock_attempts, {"subject": subject})
    parameters = {"subject": subject, "window": window, "allowed": allowed}
    row = await tx.one(queries.count_attempt, parameters, last=True)
    return row["noted"], row["wait"]


async def add_session(
    tx: Transaction,
    *,
    user_id: UUID,
    digest: bytes,
    user_agent: str | None,
    idle: timedelta,
    lifetime: timedelta,
) -> datetime:
    row = await tx.one(
        queries.add_session,
        {
            "user_id": user_id,
            "digest": digest,
            "user_agent": user_agent,
            "idle": idle,
            "lifetime": lifetime,
        },
    )
    expires_at: datetime = row["expires_at"]
    return expires_at


async def list_sessions(tx: Transaction) -> list[Session]:
    return [Session(**row) for row in await tx.all(queries.list_sessions, last=True)]


async def add_key(tx: Transaction, wanted: NewKey, prefix: str, digest: bytes) -> ApiKey:
    row = await tx.one(queries.add_key, {**wanted.model_dump(), "prefix": prefix, "digest": digest})
    return ApiKey(**row)


async def list_keys(tx: Transaction, *, before: tuple[datetime, UUID] | None, limit: int) -> list[ApiKey]:
    moment, key_id = before or (None, None)
    rows = await tx.all(queries.list_keys, {"before": moment, "before_id": key_id, "limit": limit}, last=True)
    return [ApiKey(**row) for row in rows]


async def revoke_key(tx: Transaction, key_id: UUID) -> ApiKey:
    return ApiKey(**await tx.one(queries.revoke_key, {"id": key_id}, last=True))
