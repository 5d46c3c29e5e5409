"""Rows of the schema ``mail``, read and written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction
from recollect.mail.models import Letter, Message, NewMessage, Preferences

queries = Queries(__package__)


async def send(tx: Transaction, user_id: UUID, wanted: NewMessage, *, hold: bool) -> UUID:
    parameters = {**wanted.model_dump(), "user_id": user_id, "hold": hold}
    row = await tx.one(queries.send, parameters, last=True)
    message_id: UUID = row["id"]
    return message_id


async def messages(tx: Transaction, *, before: tuple[datetime, UUID] | None, limit: int) -> list[Message]:
    moment, message_id = before or (None, None)
    parameters = {"before": moment, "before_id": message_id, "limit": limit}
    rows = await tx.all(queries.list_messages, parameters, last=True)
    return [Message(**row) for row in rows]


async def count_unread(tx: Transaction) -> int:
    row = await tx.one(queries.count_unread, last=True)
    unread: int = row["unread"]
    return unread


async def mark_read(tx: Transaction, message_id: UUID) -> Message | None:
    row = await tx.maybe(queries.mark_read, {"id": message_id}, last=True)
    return Message(**row) if row else None


async def mark_all_read(tx: Transaction, until: datetime) -> int:
    return await tx.run(queries.mark_all_read, {"until": until}, last=True)


async def delete(tx: Transaction, message_id: UUID) -> bool:
    return await tx.run(queries.delete_message, {"id": message_id}, last=True) == 1


async def preferences(tx: Transaction) -> Preferences:
    rows = await tx.all(queries.list_muted, last=True)
    return Preferences(muted=[row["kind"] for row in rows])


async def replace_preferences(tx: Transaction, wanted: Preferences) -> Preferences:
    parameters = {"kinds": wanted.muted}
    await tx.run(queries.unmute_others, parameters)
    await tx.run(queries.mute_kinds, parameters)
    return await preferences(tx)


async def is_muted(tx: Transaction, user_id: UUID, kind: str) -> bool:
    row = await tx.one(queries.is_muted, {"user_id": user_id, "kind": kind}, last=True)
    muted: bool = row["is_muted"]
    return muted


async def mute(tx: Transaction, user_id: UUID, kind: str) -> None:
    await tx.run(queries.mute, {"user_id": user_id, "kind": kind}, last=True)


async def unmute(tx: Transaction, user_id: UUID, kind: str) -> None:
    await tx.run(queries.unmute, {"user_id": user_id, "kind": kind}, last=True)


async def hold_waiting(tx: Transaction, *, lease: timedelta) -> None:
    await tx.run(queries.hold_waiting, {"lease": lease}, last=True)


async def settle(tx: Transaction, *, lease: timedelta) -> None:
    await tx.run(queries.settle, {"lease": lease}, last=True)


async def claim(
    tx: Transaction, *, after: UUID, lease: timedelta, held_for: timedelta, shown: int
) -> Letter | None:
    await tx.run(queries.lock_claims)
    parameters = {"after": after, "lease": lease, "held_for": held_for, "shown": shown}
    rows = await tx.all(queries.claim, parameters, last=True)
    return Letter.of(rows) if rows else None


async def mark_sent(tx: Transaction, letter_id: UUID) -> int:
    return await tx.run(queries.mark_sent, {"letter": letter_id}, last=True)


async def mark_failed(tx: Transaction, letter_id: UUID, error: str) -> int:
    return await tx.run(queries.mark_failed, {"letter": letter_id, "error": error}, last=True)


async def release(tx: Transaction, letter_id: UUID, error: str) -> None:
    await tx.run(queries.release, {"letter": letter_id, "error": error}, last=True)


async def postpone(
    tx: Transaction, letter_id: UUID, error: str, *, delays: Sequence[timedelta], may_have_arrived: bool
) -> None:
    parameters = {
        "letter": letter_id,
        "error": error,
        "delays": list(delays),
        "may_have_arrived": may_have_arrived,
    }
    await tx.run(queries.postpone, parameters, last=True)


async def purge(tx: Transaction, *, age: timedelta, batch: int) -> int:
    return await tx.run(queries.purge, {"age": age, "batch": batch}, last=True)
