"""One chat at a time, for applications that bring the chat along."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

from recollect.db.tenancy import Caller, Tenancy
from recollect.errors import InvalidInput
from recollect.rules.chats.messages import APPLICATION, from_application
from recollect.rules.extraction import Extractor
from recollect.rules.histories.models import History, UnknownChat
from recollect.rules.histories.service import Histories
from recollect.rules.material import Asked

MAX_SESSION = 500


class SharedMemoryProcessor:
    def __init__(self, tenancy: Tenancy, histories: Histories, extractor: Extractor) -> None:
        self._tenancy = tenancy
        self._histories = histories
        self._extractor = extractor

    async def process_chat_history(
        self, chat_history_id: UUID | str, messages: Sequence[Mapping[str, Any]], user_id: UUID | str
    ) -> dict[str, Any]:
        """The rules that a chat asks for. The id is that of a chat that is kept, or what the application
        calls it. What is new in the messages is kept as the user's, unless the chat was read from a file,
        which says it all."""
        owner = _uuid(user_id)
        if owner is None:
            raise InvalidInput("user_id: that is not a UUID.")
        kept = await self._kept(owner, chat_history_id)
        chat_id = kept.id if kept else None
        if kept is None or (kept.source == APPLICATION and messages):
            chat_id = await self._keep(owner, kept or str(chat_history_id), messages) or chat_id
        if chat_id is None:
            return {"rules": [], "rules_count": 0, "chat_history_id": None, "run": None}
        extracted = await self._extractor.extract(Asked(owner, chat_ids=[chat_id]))
        return {
            "rules": [
                {**rule.told(), "id": str(rule.id), "mem0_memory_id": rule.mem0_memory_id}
                for rule in extracted.rules
            ],
            "rules_count": len(extracted.rules),
            "chat_history_id": str(chat_id),
            "run": extracted.run.model_dump(mode="json"),
        }

    async def _kept(self, owner: UUID, named: UUID | str) -> History | None:
        chat_id = _uuid(named)
        if chat_id is None:
            return None
        async with self._tenancy.acting_as(Caller.user(owner)) as tx:
            with suppress(UnknownChat):
                return await self._histories.get(tx, owner, chat_id)
        return None

    async def _keep(
        self, owner: UUID, chat: History | str, messages: Sequence[Mapping[str, Any]]
    ) -> UUID | None:
        """None if the user says nothing in them."""
        session, place = (chat, {}) if isinstance(chat, str) else (chat.session, _place_of(chat))
        if not 1 <= len(session) <= MAX_SESSION:
            raise InvalidInput(f"chat_history_id: between 1 and {MAX_SESSION} characters.")
        chats = await asyncio.to_thread(lambda: list(from_application(session, map(dict, messages))))
        async with self._tenancy.acting_as(Caller.user(owner)) as tx:
            ids = (await self._histories.add(tx, owner, chats, **place)).ids
        return next(filter(None, ids), None)


def _place_of(chat: History) -> dict[str, UUID | None]:
    return {"workspace": chat.workspace_id, "project": chat.project_id}


def _uuid(named: UUID | str) -> UUID | None:
    try:
        return named if isinstance(named, UUID) else UUID(named)
    except ValueError:
        return None
