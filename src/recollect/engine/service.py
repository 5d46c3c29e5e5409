"""The native memory engine: what it can do, on our own Postgres; the only door to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.engine.adding import Adding
from recollect.engine.changing import Changing
from recollect.engine.context import candidates, compose
from recollect.engine.embedding.models import Embedder
from recollect.engine.keeping import Keep, Kept, Prepared, keep, prepare
from recollect.engine.models import (
    Added,
    Addition,
    Context,
    Entities,
    EntityInUse,
    Feedback,
    Found,
    Link,
    Memory,
    Tenant,
    UnknownMemory,
    Update,
    Version,
    Wanted,
    Where,
)
from recollect.engine.searching import Search, check_search
from recollect.engine.store import memory_from, queries, scope_parameters
from recollect.llm.service import Llm

PURGE_BATCH = 1_000


class Engine:
    name = "self-hosted"

    def __init__(
        self, embedder: Embedder, llm: Llm, *, meaning_weighs: float, keep_deleted_days: int
    ) -> None:
        self.embedder = embedder
        self._adding = Adding(embedder, llm)
        self._changing = Changing(embedder)
        self._search = Search(embedder, meaning_weighs)
        self._keep_deleted = timedelta(days=keep_deleted_days)

    async def add(self, tx: Transaction, wanted: Addition) -> Added:
        """Remember a conversation: as it was said, or the facts in it."""
        return await self._adding.add(tx, wanted)

    async def prepare(self, texts: Sequence[str]) -> list[Prepared]:
        """What is stored with each text. It can take another server, so nothing is held meanwhile."""
        return await prepare(self.embedder, texts)

    async def keep(
        self,
        tx: Transaction,
        tenant: Tenant,
        entities: Entities,
        kept: Sequence[Keep],
        *,
        reason: str | None = None,
    ) -> list[Kept]:
        """Have a memory under each key: changed where it is there, made where not."""
        return await keep(tx, tenant, entities, kept, self.embedder.model, reason)

    async def search(self, tx: Transaction, wanted: Wanted) -> list[Found]:
        """The memories that fit a query best, best first."""
        check_search(wanted)
        return await self._search.find(tx, wanted)

    async def context(self, tx: Transaction, wanted: Wanted, *, budget_tokens: int) -> Context:
        """The best memories as text within a budget, instead of a whole history in a prompt."""
        found = await self.search(tx, candidates(wanted, budget_tokens))
        async with tx.still_open() as reading:
            whole = await reading.one(queries.count_memories, scope_parameters(wanted.where), last=True)
        return compose(found, budget_tokens, whole["tokens"])

    async def get(self, tx: Transaction, memory_id: UUID) -> Memory:
        row = await tx.maybe(queries.get_memory, {"id": memory_id}, last=True)
        if row is None:
            raise UnknownMemory
        return memory_from(row)

    async def list(
        self, tx: Transaction, where: Where, *, after: tuple[datetime, UUID] | None = None, limit: int = 100
    ) -> list[Memory]:
        """Memories in scope, newest first."""
        after_at, after_id = after or (None, None)
        parameters = {**scope_parameters(where), "after_at": after_at, "after_id": after_id, "limit": limit}
        return [memory_from(row) for row in await tx.all(queries.list_memories, parameters, last=True)]

    async def count(self, tx: Transaction, where: Where) -> int:
        row = await tx.one(queries.count_memories, scope_parameters(where), last=True)
        return int(row["memories"])

    async def update(
        self,
        tx: Transaction,
        memory_id: UUID,
        *,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | Literal["keep"] | None = "keep",
        occurred_at: datetime | None = None,
        reason: str | None = None,
    ) -> Memory:
        """Change a memory; what it was stays in its history."""
        wanted = Update(memory_id, text, metadata, expires_at, occurred_at)
        [memory] = await self._changing.change(tx, [wanted], reason)
        return memory

    async def update_many(
        self, tx: Transaction, wanted: Sequence[Update], *, reason: str | None = None
    ) -> Sequence[Memory]:
        """Change several memories, all or none of them."""
        return await self._changing.change(tx, wanted, reason)

    async def delete(self, tx: Transaction, memory_id: UUID, *, reason: str | None = None) -> None:
        """Forget a memory; until retention it can be restored."""
        if not await tx.run(queries.delete_memory, {"id": memory_id, "reason": reason}, last=True):
            raise UnknownMemory

    async def delete_many(
        self, tx: Transaction, memory_ids: Sequence[UUID], *, reason: str | None = None
    ) -> int:
        """Forget several memories, all or none of them; says how many."""
        parameters = {"ids": list(memory_ids), "reason": reason}
        deleted = await tx.run(queries.delete_these, parameters)
        if deleted < len(set(memory_ids)):
            raise UnknownMemory("One of these memories is not there; none was deleted.")
        return deleted

    async def delete_all(self, tx: Transaction, where: Where, *, reason: str | None = None) -> int:
        """Forget every memory in scope, expired and superseded ones included; says how many."""
        parameters = {**scope_parameters(where), "reason": reason}
        row = await tx.one(queries.delete_memories, parameters, last=True)
        return int(row["gone"])

    async def restore(self, tx: Transaction, memory_id: UUID, *, reason: str | None = None) -> Memory:
        """Take a deletion back."""
        row = await tx.maybe(queries.restore_memory, {"id": memory_id, "reason": reason}, last=True)
        if row is None:
            raise UnknownMemory("There is no such deleted memory; retention may have taken it.")
        return memory_from(row)

    async def history(self, tx: Transaction, memory_id: UUID) -> Sequence[Version]:
        """All versions of a memory, oldest first; also of a deleted one."""
        rows = await tx.all(queries.versions_of, {"id": memory_id}, last=True)
        if not rows:
            raise UnknownMemory
        texts = [None, *(row["text"] for row in rows)]
        return [Version(**row, previous=before) for row, before in zip(rows, texts, strict=False)]

    async def links(self, tx: Transaction, memory_id: UUID) -> Sequence[Link]:
        """Facts that say nearly the same."""
        return [Link(**row) for row in await tx.all(queries.links_of, {"id": memory_id}, last=True)]

    async def feedback(
        self, tx: Transaction, memory_id: UUID, feedback: Feedback | None, reason: str | None = None
    ) -> Memory:
        """Note whether a memory was any good."""
        parameters = {"id": memory_id, "feedback": feedback, "reason": reason}
        row = await tx.maybe(queries.give_feedback, parameters, last=True)
        if row is None:
            raise UnknownMemory
        return memory_from(row)

    async def entities(
        self,
        tx: Transaction,
        workspace: UUID | None = None,
        *,
        after: tuple[str, str] = ("", ""),
        limit: int = 100,
    ) -> Sequence[EntityInUse]:
        """Whom the memories are about."""
        parameters = {"workspace": workspace, "after_type": after[0], "after_name": after[1], "limit": limit}
        rows = await tx.all(queries.entities_in_use, parameters, last=True)
        return [EntityInUse(**row) for row in rows]

    async def purge(self, tenancy: Tenancy) -> int:
        """Forget for good what was deleted long enough ago, a bounded batch per transaction."""
        purged = 0
        while True:
            async with tenancy.acting_as(SERVICE) as tx:
                parameters = {"age": self._keep_deleted, "batch": PURGE_BATCH}
                gone = await tx.run(queries.purge_deleted, parameters, last=True)
            purged += gone
            if gone < PURGE_BATCH:
                break
        async with tenancy.acting_as(SERVICE) as tx:
            await tx.run(queries.purge_streams, last=True)
        return purged
