"""What models are told before they update a profile. Each text is kept; one is in use."""

from __future__ import annotations

from uuid import UUID

from recollect.db.tenancy import Transaction
from recollect.errors import NotFound
from recollect.profile.models import Prompt
from recollect.profile.store import queries

MAX_PROMPT = 20_000
MAX_DESCRIPTION = 2_000


class UnknownPrompt(NotFound):
    """There is no prompt of that version."""

    code = "unknown_prompt"


class Prompts:
    async def active(self, tx: Transaction) -> Prompt:
        return Prompt(**await tx.one(queries.active_prompt, last=True))

    async def all(self, tx: Transaction) -> list[Prompt]:
        """The latest first."""
        return [Prompt(**row) for row in await tx.all(queries.list_prompts, last=True)]

    async def change(
        self, tx: Transaction, text: str, description: str | None = None, *, by: UUID | None = None
    ) -> Prompt:
        """Take a new text into use, from the next update on."""
        await tx.run(queries.retire_prompt)
        parameters = {"prompt_text": text, "description": description, "created_by": by}
        return Prompt(**await tx.one(queries.add_prompt, parameters, last=True))

    async def use(self, tx: Transaction, version: int) -> Prompt:
        """Take an earlier text into use again."""
        await tx.run(queries.retire_prompt)
        row = await tx.maybe(queries.use_prompt, {"version": version})
        if row is None:
            raise UnknownPrompt
        return Prompt(**row)
