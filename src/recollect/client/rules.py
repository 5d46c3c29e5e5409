"""Rules that chats ask for, through the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pydantic import BaseModel, TypeAdapter

from recollect.client.connection import Connection, data_in, given, plain_json, read, valid
from recollect.rules.models import ApprovedRule, Compared, Prompt, PromptVersion, Rule, Run, Status

PATH = "/api/rules"
PROMPTS = f"{PATH}/prompts"

_id: TypeAdapter[UUID] = TypeAdapter(UUID)


class _Queued(BaseModel):
    id: UUID


class RulePrompts:
    """What models are told before they extract rules."""

    def __init__(self, server: Connection) -> None:
        self._server = server

    async def add(self, name: str, prompt_text: str, **more: Any) -> Prompt:
        """Add a prompt, in use from the next extraction on; ``workspace_id`` says for which workspace."""
        wanted = plain_json({"name": name, "prompt_text": prompt_text, **more})
        return read(Prompt, await self._server.send("POST", PROMPTS, json=wanted))

    async def change(self, prompt_id: UUID | str, **changes: Any) -> Prompt:
        """Change a prompt, from the next extraction on."""
        answer = await self._server.send("PATCH", _one(PROMPTS, prompt_id), json=plain_json(changes))
        return read(Prompt, answer)

    async def versions(self, prompt_id: UUID | str) -> list[PromptVersion]:
        """Every earlier text, the latest first."""
        answer = await self._server.send("GET", f"{_one(PROMPTS, prompt_id)}/versions")
        return [read(PromptVersion, item) for item in data_in(answer)]

    async def try_on(
        self, prompt_id: UUID | str, chat_ids: Sequence[UUID | str], prompt_text: str | None = None
    ) -> Compared:
        """What it makes of chats, beside the active one; no rule is stored."""
        wanted = given(chat_history_ids=list(chat_ids), prompt_text=prompt_text)
        answer = await self._server.send("POST", f"{_one(PROMPTS, prompt_id)}/try", json=plain_json(wanted))
        return read(Compared, answer)

    # The last one: after it, "list" means this here.
    async def list(self, *, workspace: UUID | str | None = None) -> list[Prompt]:
        """A workspace's, and those for all."""
        answer = await self._server.send("GET", PROMPTS, params=given(workspace_id=workspace))
        return [read(Prompt, item) for item in data_in(answer)]


class Rules:
    def __init__(self, server: Connection) -> None:
        self._server = server
        self.prompts = RulePrompts(server)

    async def extract(
        self,
        chat_ids: Sequence[UUID | str] | None = None,
        *,
        workspace: UUID | str | None = None,
        prompt: UUID | str | None = None,
    ) -> UUID:
        """Have rules found in these chats, or in whatever is new. The job's id, for ``wait_for_job``."""
        wanted = given(
            chat_history_ids=None if chat_ids is None else list(chat_ids),
            workspace_id=workspace,
            prompt_id=prompt,
        )
        answer = await self._server.send("POST", f"{PATH}/extract", json=plain_json(wanted))
        return read(_Queued, answer).id

    async def get(self, rule_id: UUID | str) -> Rule:
        """One rule; NotFound if there is none."""
        return read(Rule, await self._server.send("GET", _one(PATH, rule_id)))

    async def decide(self, rule_id: UUID | str, status: Status, reason: str | None = None) -> Rule:
        """Approve or reject a rule."""
        wanted = given(status=status, reason=reason)
        answer = await self._server.send("PATCH", f"{_one(PATH, rule_id)}/status", json=plain_json(wanted))
        return read(Rule, answer)

    async def approved(
        self,
        *,
        workspace: UUID | str | None = None,
        project: UUID | str | None = None,
        category: str | None = None,
    ) -> Sequence[ApprovedRule]:
        """The rules that hold; being handed out counts as use."""
        which = given(workspace_id=workspace, project_id=project, category=category)
        answer = await self._server.send("GET", f"{PATH}/approved", params=which)
        return [read(ApprovedRule, item) for item in data_in(answer)]

    async def runs(self, *, workspace: UUID | str | None = None) -> Sequence[Run]:
        """Extractions, the newest first."""
        which = given(workspace_id=workspace)
        return [read(Run, item) async for item in self._server.items(f"{PATH}/runs", which)]

    # The last one: after it, "list" means this here.
    async def list(self, **which: Any) -> list[Rule]:
        """The rules of a ``workspace_id``, or the caller's own: all, or those of a ``status``, a
        ``category``, a ``project_id``, or at least ``min_confidence``."""
        wanted: Mapping[str, Any] = given(**which)
        return [read(Rule, item) async for item in self._server.items(PATH, dict(wanted))]


def _one(path: str, named: UUID | str) -> str:
    return f"{path}/{valid(_id, 'id', named)}"
