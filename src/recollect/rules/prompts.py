"""What models are told before they extract rules. Every earlier text is kept."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from recollect.access.roles import if_role_allows, role_decides
from recollect.db.tenancy import Transaction
from recollect.rules import store
from recollect.rules.models import NewPrompt, Prompt, PromptChange, PromptVersion, UnknownPrompt
from recollect.rules.store import queries

MAX_SHOWN = 1_000


class Prompts:
    async def list(self, tx: Transaction, *, workspace: UUID | None = None) -> Sequence[Prompt]:
        """A workspace's, before those for all."""
        rows = await tx.all(queries.list_prompts, {"workspace": workspace, "limit": MAX_SHOWN}, last=True)
        return [Prompt(**row) for row in rows]

    async def get(self, tx: Transaction, prompt_id: UUID) -> Prompt:
        found = await store.prompt(tx, prompt_id)
        if found is None:
            raise UnknownPrompt
        return found

    async def add(
        self, tx: Transaction, wanted: NewPrompt, *, workspace: UUID | None = None, by: UUID | None = None
    ) -> Prompt:
        """For a workspace, by its owners and admins; for all, by the service."""
        parameters = {**wanted.model_dump(), "workspace": workspace, "created_by": by}
        with role_decides():
            return Prompt(**await tx.one(queries.add_prompt, parameters, last=True))

    async def change(self, tx: Transaction, prompt_id: UUID, wanted: PromptChange) -> Prompt:
        """From the next extraction on."""
        await self.get(tx, prompt_id)
        given = wanted.model_dump_json(exclude_unset=True)
        return Prompt(**await if_role_allows(tx, queries.change_prompt, {"id": prompt_id, "given": given}))

    async def versions(self, tx: Transaction, prompt_id: UUID) -> Sequence[PromptVersion]:
        """Every earlier text, the latest first."""
        await self.get(tx, prompt_id)
        rows = await tx.all(queries.prompt_versions, {"id": prompt_id, "limit": MAX_SHOWN})
        return [PromptVersion(**row) for row in rows]
