"""What other parts of Recollect know of a user's doings, as activities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from recollect.db.tenancy import Transaction
from recollect.engine.store import queries as engine_queries
from recollect.profile.models import MAX_CONTENT, Activity
from recollect.profile.store import queries

Events = Sequence[Mapping[str, Any]]

# Of all chats that were imported since the last update.
MOST_TURNS = 200
LONGEST_TURN = 1_000


async def said(tx: Transaction, user_id: UUID, events: Events) -> list[Activity]:
    """What the user said in conversations that were remembered."""
    parameters = {"user_id": user_id, "ids": [event["data"]["memoryId"] for event in events]}
    return [
        Activity.model_construct(
            kind="message", content=row["text"][:MAX_CONTENT], data={}, happened_at=row["happened_at"]
        )
        for row in await tx.all(engine_queries.said, parameters)
    ]


async def chatted(tx: Transaction, user_id: UUID, events: Events) -> list[Activity]:
    """What the user said in chats that were imported, if these may be analysed: the latest of it."""
    parameters = {
        "user_id": user_id,
        "chats": [event["data"]["chatId"] for event in events],
        "firsts": [event["data"]["first"] for event in events],
        "lasts": [event["data"]["last"] for event in events],
        "times": [event["happened_at"] for event in events],
        "most": MOST_TURNS,
        "longest": LONGEST_TURN,
    }
    rows = await tx.all(queries.said_in_chats, parameters)
    return [Activity.model_construct(kind="message", data={}, **row) for row in rows]


async def learnt(tx: Transaction, user_id: UUID, events: Events) -> list[Activity]:
    """That facts about the user changed; which ones, and not what they say."""
    del tx, user_id
    return [
        Activity.model_construct(
            kind="insight", content="", data={"fact": event["data"]["slug"]}, happened_at=event["happened_at"]
        )
        for event in events
    ]


SOURCES = {"memory.added": said, "brain.changed": learnt, "chat.imported": chatted}
