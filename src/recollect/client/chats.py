"""Chat histories through the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from recollect.client.connection import Connection, data_in, given, plain_json, read, valid
from recollect.rules.histories.models import Consent, History, HistoryTurn, Imported

PATH = "/api/chats"

_id: TypeAdapter[UUID] = TypeAdapter(UUID)


class Chats:
    def __init__(self, server: Connection) -> None:
        self._server = server

    async def add(
        self,
        chats: Sequence[Mapping[str, Any]],
        *,
        workspace: UUID | str | None = None,
        project: UUID | str | None = None,
    ) -> Imported:
        """Keep conversations, each with its ``session`` and ``messages``, secrets masked. Send a session
        again when it has grown: what is new is added."""
        place = given(workspace_id=workspace, project_id=project)
        answer = await self._server.send("POST", PATH, json=plain_json({"chats": list(chats), **place}))
        return read(Imported, answer)

    async def get(self, chat_id: UUID | str) -> History:
        """One chat, without what was said in it; NotFound if there is none."""
        answer = await self._server.send("GET", _one(chat_id), params={"limit": 1})
        return read(History, answer.get("chat") if isinstance(answer, dict) else None)

    async def turns(self, chat_id: UUID | str) -> list[HistoryTurn]:
        """All that was said in a chat."""
        return [read(HistoryTurn, item) async for item in self._server.items(_one(chat_id), {})]

    async def delete(self, chat_id: UUID | str) -> None:
        """Forget a chat and all that was said in it."""
        await self._server.send("DELETE", _one(chat_id))

    async def consent(self, *, granted: bool, workspace: UUID | str | None = None) -> Consent:
        """Agree that rules are learnt from your chats, or no longer."""
        wanted = plain_json({"granted": granted, **given(workspace_id=workspace)})
        return read(Consent, await self._server.send("PUT", f"{PATH}/consent", json=wanted))

    async def consents(self) -> list[Consent]:
        """What you have said, for your own chats and for each workspace."""
        answer = await self._server.send("GET", f"{PATH}/consent")
        return [read(Consent, item) for item in data_in(answer)]

    # The last one: after it, "list" means this here.
    async def list(self, *, workspace: UUID | str | None = None) -> list[History]:
        """Your chats, all of them; those that got turns last come first."""
        items = self._server.items(PATH, given(workspace_id=workspace))
        return [read(History, item) async for item in items]


def _one(chat_id: UUID | str) -> str:
    return f"{PATH}/{valid(_id, 'chat_id', chat_id)}"
