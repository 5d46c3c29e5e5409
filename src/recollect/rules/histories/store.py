"""Rows of chat histories, read and written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from recollect.db.queries import Queries
from recollect.db.tenancy import Transaction
from recollect.rules.chats.models import Chat, Turn
from recollect.rules.chats.transcript import PART_SIZE, TURN_OVERHEAD
from recollect.rules.histories.models import Stored
from recollect.rules.histories.preparing import Ready

queries = Queries(__package__)

CHATS_AT_ONCE = 200
# At 64 KB each, at most 32 MB.
TURNS_AT_ONCE = 500
_LOWEST = UUID(int=0)

Key = tuple[str, str]


def key_of(chat: Chat) -> Key:
    """What a chat is known by, among those of a user in a workspace."""
    return chat.format, chat.session


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose chats they become, and where."""

    user_id: UUID
    workspace: UUID | None = None
    project: UUID | None = None


async def known(tx: Transaction, owner: Owner, digests: Sequence[bytes]) -> set[bytes]:
    rows = await tx.all(queries.known_turns, {"user_id": owner.user_id, "digests": list(digests)})
    return {row["digest"] for row in rows}


async def sessions(tx: Transaction, owner: Owner, chats: Sequence[Chat]) -> list[UUID | None]:
    """Under which id each is kept, if it is."""
    rows = await tx.all(
        queries.find_sessions,
        {
            "user_id": owner.user_id,
            "workspace": owner.workspace,
            "sources": [chat.format for chat in chats],
            "sessions": [chat.session for chat in chats],
        },
    )
    found = {row["nth"]: row["id"] for row in rows}
    return [found.get(nth) for nth in range(1, len(chats) + 1)]


async def put_chats(tx: Transaction, owner: Owner, chats: Collection[Chat]) -> dict[Key, UUID]:
    rows = await tx.all(
        queries.put_chats,
        {
            "user_id": owner.user_id,
            "workspace": owner.workspace,
            "project": owner.project,
            "sources": [chat.format for chat in chats],
            "files": [chat.source for chat in chats],
            "sessions": [chat.session for chat in chats],
            "projects": [chat.project for chat in chats],
            "authors": [chat.author for chat in chats],
            "titles": [chat.title for chat in chats],
            "started": [chat.started_at for chat in chats],
        },
    )
    return {(row["source"], row["session"]): row["id"] for row in rows}


async def add_turns(tx: Transaction, owner: Owner, turns: Sequence[tuple[UUID, Ready]]) -> None:
    await tx.run(
        queries.add_turns,
        {
            "user_id": owner.user_id,
            "chats": [chat_id for chat_id, _ in turns],
            "numbers": [each.turn.number for _, each in turns],
            "roles": [each.turn.role for _, each in turns],
            "kinds": [each.turn.kind for _, each in turns],
            "texts": [each.turn.text for _, each in turns],
            "doings": [each.turn.doing for _, each in turns],
            "languages": [each.language for _, each in turns],
            "masked": [",".join(each.masked) for _, each in turns],
            "times": [each.turn.at for _, each in turns],
            "digests": [each.digest for _, each in turns],
        },
    )


async def read(
    tx: Transaction, user_id: UUID, workspace: UUID | None, chat_ids: Sequence[UUID] | None
) -> AsyncIterator[Stored]:
    """Chats with their turns, so many rows at a time."""
    parameters = {"user_id": user_id, "workspace": workspace, "limit": CHATS_AT_ONCE}
    ids = None if chat_ids is None else list(chat_ids)
    after = _LOWEST
    while rows := await tx.all(queries.chats_to_read, {**parameters, "ids": ids, "after": after}):
        async for stored in _with_turns(tx, {row["id"]: row for row in rows}):
            yield stored
        after = rows[-1]["id"]


async def _with_turns(tx: Transaction, chats: dict[UUID, dict[str, Any]]) -> AsyncIterator[Stored]:
    chat_id, number = _LOWEST, -1
    gathered: list[dict[str, Any]] = []
    size = 0
    while True:
        parameters = {"ids": list(chats), "after_chat": chat_id, "after_number": number}
        rows = await tx.all(queries.turns_to_read, {**parameters, "limit": TURNS_AT_ONCE})
        for row in rows:
            if gathered and (row["chat_id"] != chat_id or size >= PART_SIZE):
                yield _stored(chats[chat_id], gathered)
                gathered, size = [], 0
            chat_id, number = row["chat_id"], row["number"]
            gathered.append(row)
            size += len(row["text"]) + TURN_OVERHEAD
        if len(rows) < TURNS_AT_ONCE:
            break
    if gathered:
        yield _stored(chats[chat_id], gathered)


def _stored(chat: dict[str, Any], rows: Sequence[dict[str, Any]]) -> Stored:
    turns = tuple(
        Turn(row["role"], row["text"], row["said_at"], row["number"], row["doing"], row["kind"])
        for row in rows
    )
    return Stored(
        id=chat["id"],
        chat=Chat(
            source=chat["file"] or chat["source"],
            format=chat["source"],
            session=chat["session"],
            project=chat["project"],
            author=chat["author"],
            title=chat["title"],
            started_at=chat["started_at"],
            turns=turns,
        ),
        turn_ids={row["number"]: row["id"] for row in rows},
        new=frozenset(row["number"] for row in rows if row["is_new"]),
    )
