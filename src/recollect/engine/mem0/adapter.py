"""What mem0's library and mem0's platform have in common as engines.

mem0 knows nothing of our tenants: our own database says first whom a call is for and what they may do, and
whatever has an id is looked at before it is touched. What a fact is gets decided here in either mode: mem0
would compare it with all that it knows of an entity, whoever said it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from recollect.db.tenancy import Tenancy, Transaction
from recollect.engine.adding import checked, fact_digest, kept_digest, request_digest
from recollect.engine.changing import checked_update
from recollect.engine.context import candidates, compose
from recollect.engine.extraction import rules
from recollect.engine.extraction.model import extract_with
from recollect.engine.extraction.models import Extraction, Said
from recollect.engine.mem0.models import Acting, Kept, NotSupported, Piece, Rights
from recollect.engine.mem0.store import queries
from recollect.engine.models import (
    KEPT,
    Added,
    Addition,
    Change,
    Context,
    Entities,
    EntityInUse,
    Feedback,
    Found,
    Link,
    Memory,
    Message,
    Tenant,
    UnknownMemory,
    Update,
    Version,
    Wanted,
    Where,
)
from recollect.engine.searching import check_search
from recollect.engine.store import digest
from recollect.llm.service import Llm

DELETE_BATCH = 500


class Mem0Engine(ABC):
    name: str

    def __init__(self, llm: Llm) -> None:
        self._llm = llm

    # What each of the two does in its own way ---------------------------------------------------

    @abstractmethod
    async def _known(self, tenant: Tenant, pieces: Sequence[Piece]) -> dict[str, UUID]:
        """Which of them the tenant has already, by digest."""

    @abstractmethod
    async def _put(self, acting: Acting, wanted: Addition, piece: Piece) -> UUID | None:
        """Store one; None if somebody else has just stored the same."""

    @abstractmethod
    async def _find(self, tenant: Tenant, wanted: Wanted) -> list[Found]: ...

    @abstractmethod
    async def _fetch(self, memory_id: UUID) -> Kept | None: ...

    @abstractmethod
    async def _page(
        self, tenant: Tenant, where: Where, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[Memory]: ...

    @abstractmethod
    async def _size(self, tenant: Tenant, where: Where) -> tuple[int, int]:
        """How many memories are in scope, and how many tokens they have together."""

    @abstractmethod
    async def _change(self, acting: Acting, before: Memory, update: Update) -> None: ...

    @abstractmethod
    async def _forget(self, acting: Acting, memory_id: UUID) -> None: ...

    @abstractmethod
    async def _versions(self, rights: Rights, memory_id: UUID) -> list[Version]: ...

    @abstractmethod
    async def _judge(
        self, acting: Acting, before: Memory, feedback: Feedback | None, reason: str | None
    ) -> None: ...

    @abstractmethod
    async def _entities(self, tenant: Tenant, after: tuple[str, str], limit: int) -> list[EntityInUse]: ...

    @abstractmethod
    async def holders(self, app: str) -> set[UUID]:
        """The tenants with memories that this application made."""

    @abstractmethod
    async def purge(self, tenancy: Tenancy) -> int:
        """Forget for good what was deleted long enough ago."""

    # What both do alike -------------------------------------------------------------------------

    async def add(self, tx: Transaction, wanted: Addition) -> Added:
        """Remember a conversation: as it was said, or the facts in it."""
        messages = checked(wanted)
        rights = await _rights(tx)
        acting = Acting(rights.tenant(wanted.workspace, to="write"), rights.actor, wanted.reason)
        extraction = await self._distil(tx, wanted, messages) if wanted.infer else None
        pieces = _turns(wanted, messages) if extraction is None else _facts(wanted, extraction)
        known = await self._known(acting.tenant, pieces) if pieces else {}
        results: list[Change] = []
        for piece in pieces:
            stored = known.get(piece.digest)
            event: Literal["ADD", "NONE"] = "NONE"
            if stored is None:
                stored = await self._put(acting, wanted, piece)
                event = "ADD"
            if stored is None:
                stored = (await self._known(acting.tenant, [piece]))[piece.digest]
                event = "NONE"
            # The same fact twice in one conversation is one.
            known[piece.digest] = stored
            results.append(Change(id=stored, text=piece.text, event=event))
        if extraction is None:
            return Added(results=results)
        return Added(
            results=results, not_understood=list(extraction.not_understood), made_by=extraction.made_by
        )

    async def keep(
        self,
        tx: Transaction,
        tenant: Tenant,
        entities: Entities,
        key: str,
        text: str,
        *,
        metadata: Mapping[str, Any],
        known: UUID | None = None,
        reason: str | None = None,
    ) -> UUID:
        """Have one memory under a key: changed if it is there, made if not. To repeat it changes nothing.
        ``known`` is where it was, also if somebody else has made it."""
        rights = await _rights(tx)
        acting = Acting(rights.held_to(tenant, to="write"), rights.actor, reason)
        piece = Piece(text=text, kind="fact", digest=kept_digest(entities, key).hex(), made_by=KEPT)
        before = await self._fetch(known) if known else None
        if before is None or before.tenant != tenant.id:
            stored = (await self._known(tenant, [piece])).get(piece.digest)
            if stored is None:
                wanted = Addition([], entities, metadata=metadata, infer=False)
                if (made := await self._put(acting, wanted, piece)) is not None:
                    return made
                stored = (await self._known(tenant, [piece]))[piece.digest]
            if (before := await self._fetch(stored)) is None:
                raise UnknownMemory
        if (before.memory.text, before.memory.metadata) != (text, dict(metadata)):
            await self._change(acting, before.memory, Update(before.memory.id, text, metadata))
        return before.memory.id

    async def kept(self, tx: Transaction, memory_id: UUID) -> Kept | None:
        """A memory and whose it is, if the caller may know."""
        rights = await _rights(tx)
        try:
            return await self._seen(rights, memory_id, to="read")
        except UnknownMemory:
            return None

    async def _distil(self, tx: Transaction, wanted: Addition, messages: Sequence[Message]) -> Extraction:
        said = [Said(message.role, message.text, message.name) for message in messages]
        if not self._llm.configured:
            return rules.extract(said)
        return await extract_with(
            self._llm,
            tx.caller,
            said,
            known=[],
            instructions=wanted.instructions,
            workspace=wanted.workspace,
        )

    async def search(self, tx: Transaction, wanted: Wanted) -> list[Found]:
        """The memories that fit a query best, best first."""
        check_search(wanted)
        if wanted.recency or wanted.importance:
            raise NotSupported("mem0 ranks by words and meaning alone: leave recency and importance out.")
        tenant = await _reading(tx, wanted.where.workspace)
        return await self._find(tenant, wanted)

    async def context(self, tx: Transaction, wanted: Wanted, *, budget_tokens: int) -> Context:
        """The best memories as text within a budget, instead of a whole history in a prompt."""
        found = await self.search(tx, candidates(wanted, budget_tokens))
        async with tx.still_open() as reading:
            tenant = await _reading(reading, wanted.where.workspace)
        _, tokens = await self._size(tenant, wanted.where)
        return compose(found, budget_tokens, tokens)

    async def get(self, tx: Transaction, memory_id: UUID) -> Memory:
        rights = await _rights(tx)
        return (await self._seen(rights, memory_id, to="read")).memory

    async def list(
        self, tx: Transaction, where: Where, *, after: tuple[datetime, UUID] | None = None, limit: int = 100
    ) -> list[Memory]:
        """Memories in scope, newest first."""
        tenant = await _reading(tx, where.workspace)
        return await self._page(tenant, where, after, limit)

    async def count(self, tx: Transaction, where: Where) -> int:
        tenant = await _reading(tx, where.workspace)
        return (await self._size(tenant, where))[0]

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
        [memory] = await self.update_many(tx, [wanted], reason=reason)
        return memory

    async def update_many(
        self, tx: Transaction, wanted: Sequence[Update], *, reason: str | None = None
    ) -> Sequence[Memory]:
        """Change several memories, none of them unless all are there."""
        updates = [checked_update(update) for update in wanted]
        rights = await _rights(tx)
        kept = [await self._seen(rights, update.memory_id, to="write") for update in updates]
        for update, before in zip(updates, kept, strict=True):
            await self._change(_acting(rights, before, reason), before.memory, update)
        return [(await self._seen(rights, update.memory_id, to="read")).memory for update in updates]

    async def delete(self, tx: Transaction, memory_id: UUID, *, reason: str | None = None) -> None:
        """Forget a memory; mem0 cannot restore it."""
        await self.delete_many(tx, [memory_id], reason=reason)

    async def delete_many(
        self, tx: Transaction, memory_ids: Sequence[UUID], *, reason: str | None = None
    ) -> int:
        """Forget several memories, none of them unless all are there; says how many."""
        rights = await _rights(tx)
        kept = [await self._seen(rights, memory_id, to="write") for memory_id in dict.fromkeys(memory_ids)]
        for before in kept:
            await self._forget(_acting(rights, before, reason), before.memory.id)
        return len(kept)

    async def delete_all(self, tx: Transaction, where: Where, *, reason: str | None = None) -> int:
        """Forget every memory in scope, expired ones included; says how many."""
        rights = await _rights(tx)
        acting = Acting(rights.tenant(where.workspace, to="write"), rights.actor, reason)
        everything = Where(where.entities, where.workspace, where.filters, expired=True, superseded=True)
        deleted: set[UUID] = set()
        # A server that deletes in its own time tells the same ones again.
        while (
            found := {memory.id for memory in await self._page(acting.tenant, everything, None, DELETE_BATCH)}
            - deleted
        ):
            for memory_id in found:
                await self._forget(acting, memory_id)
            deleted |= found
        return len(deleted)

    async def restore(self, tx: Transaction, memory_id: UUID, *, reason: str | None = None) -> Memory:
        """Take a deletion back: mem0 cannot."""
        del tx, memory_id, reason
        raise NotSupported("mem0 forgets what is deleted at once, and cannot restore it.")

    async def history(self, tx: Transaction, memory_id: UUID) -> Sequence[Version]:
        """All versions of a memory, oldest first."""
        return await self._versions(await _rights(tx), memory_id)

    async def links(self, tx: Transaction, memory_id: UUID) -> Sequence[Link]:
        """Facts that say nearly the same: mem0 keeps none."""
        del tx, memory_id
        return []

    async def feedback(
        self, tx: Transaction, memory_id: UUID, feedback: Feedback | None, reason: str | None = None
    ) -> Memory:
        """Note whether a memory was any good."""
        rights = await _rights(tx, finish=False)
        kept = await self._seen(rights, memory_id, to="write")
        await self._judge(_acting(rights, kept, None), kept.memory, feedback, reason)
        return kept.memory.model_copy(update={"feedback": feedback, "feedback_reason": reason})

    async def entities(
        self,
        tx: Transaction,
        workspace: UUID | None = None,
        *,
        after: tuple[str, str] = ("", ""),
        limit: int = 100,
    ) -> Sequence[EntityInUse]:
        """Whom the memories are about."""
        tenant = await _reading(tx, workspace)
        return await self._entities(tenant, after, limit)

    async def _seen(self, rights: Rights, memory_id: UUID, *, to: Literal["read", "write"]) -> Kept:
        kept = await self._fetch(memory_id)
        if kept is None or not rights.may(to, kept.tenant):
            raise UnknownMemory
        return kept


async def _rights(tx: Transaction, *, finish: bool = True) -> Rights:
    row = await tx.one(queries.rights, last=True)
    if finish:
        # Nothing is held while mem0 works, which can take another server.
        await tx.finish()
    return Rights(
        row["id"], row["really"] or row["id"], row["is_service"], row["readable"] or (), row["writable"] or ()
    )


async def _reading(tx: Transaction, workspace: UUID | None) -> Tenant:
    return (await _rights(tx)).tenant(workspace, to="read")


def _acting(rights: Rights, kept: Kept, reason: str | None) -> Acting:
    memory = kept.memory
    return Acting(Tenant(kept.tenant, memory.workspace, memory.company), rights.actor, reason)


def digest_after(before: Memory, text: str) -> str | None:
    """What tells a memory from others once it has another text; None: what has told it before."""
    if before.made_by == KEPT:
        return None
    entity = {"of_user": before.user, "of_agent": before.agent, "of_app": before.app}
    return (fact_digest(entity, text) if before.kind == "fact" else digest("edited", before.id)).hex()


def _turns(wanted: Addition, messages: Sequence[Message]) -> list[Piece]:
    request = request_digest(wanted, messages)
    return [
        Piece(
            text=message.text,
            kind="turn",
            digest=digest(request.hex(), number).hex(),
            role=message.role,
            speaker=message.name,
            occurred_at=message.occurred_at or wanted.occurred_at,
            importance=wanted.importance,
            categories=tuple(wanted.categories),
        )
        for number, message in enumerate(messages)
    ]


def _facts(wanted: Addition, extraction: Extraction) -> list[Piece]:
    return [
        Piece(
            text=fact.text,
            kind="fact",
            digest=fact_digest(wanted.entities.parameters, fact.text).hex(),
            occurred_at=wanted.occurred_at,
            importance=fact.importance if fact.importance is not None else wanted.importance,
            categories=tuple(wanted.categories),
            made_by=extraction.made_by,
        )
        for fact in extraction.facts
    ]
