"""mem0's platform as the engine (MEM0_MODE=platform), or another server that speaks as it does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from recollect.db.tenancy import Tenancy
from recollect.engine.context import tokens_in
from recollect.engine.mem0.adapter import Mem0Engine, digest_after
from recollect.engine.mem0.models import Acting, Kept, Piece, Rights
from recollect.engine.mem0.replies import (
    Anything,
    EntitiesReply,
    EntityReply,
    FoundMemory,
    FoundReply,
    HistoryReply,
    MemoryReply,
    PageReply,
)
from recollect.engine.mem0.scoping import (
    DIGEST,
    RESERVED,
    TENANT,
    is_of,
    named_in,
    names_for,
    tenant_in,
    unscoped,
    within,
)
from recollect.engine.mem0.wire import Wire
from recollect.engine.models import (
    Addition,
    Breakdown,
    EntityInUse,
    Feedback,
    Found,
    Memory,
    Tenant,
    UnknownMemory,
    Update,
    Version,
    Wanted,
    Where,
)
from recollect.llm.service import Llm

PAGE = 100
# Conditions in one filter.
DIGESTS_AT_ONCE = 50

_OURS = (
    "workspace",
    "company",
    "kind",
    "role",
    "speaker",
    "importance",
    "occurred_at",
    "expires_at",
    "made_by",
)


class Mem0Platform(Mem0Engine):
    name = "platform"

    def __init__(self, wire: Wire, llm: Llm) -> None:
        super().__init__(llm)
        self._wire = wire

    async def _known(self, tenant: Tenant, pieces: Sequence[Piece]) -> dict[str, UUID]:
        digests = [piece.digest for piece in pieces]
        known: dict[str, UUID] = {}
        for first in range(0, len(digests), DIGESTS_AT_ONCE):
            some = [{"metadata": {DIGEST: each}} for each in digests[first : first + DIGESTS_AT_ONCE]]
            asked = within(tenant.id, Where(workspace=tenant.workspace, expired=True), {"OR": some})
            async for memory in self._walk(asked, expired=True):
                known[(memory.metadata or {})[DIGEST]] = memory.id
        return known

    async def _put(self, acting: Acting, wanted: Addition, piece: Piece) -> UUID | None:
        body = {
            # As a user's, whoever said it: what a system says may be left out.
            "messages": [{"role": "user", "content": piece.text}],
            **names_for(wanted.entities, acting.tenant.id),
            "metadata": {**_free(wanted.metadata), **_described(acting.tenant, wanted, piece)},
            "infer": False,
        }
        if wanted.expires_at is not None:
            body["expiration_date"] = _last_day(wanted.expires_at)
        if piece.occurred_at is not None:
            body["timestamp"] = int(piece.occurred_at.timestamp())
        return await self._wire.stored(body)

    async def _find(self, tenant: Tenant, wanted: Wanted) -> list[Found]:
        body = {
            "query": wanted.query,
            "filters": within(tenant.id, wanted.where),
            "top_k": wanted.limit,
            "threshold": wanted.threshold,
            "show_expired": wanted.where.expired,
        }
        answer = await self._wire.ask(FoundReply, "POST", "/v3/memories/search/", body=body)
        found = [_found(item, tenant, explain=wanted.explain) for item in answer.results]
        return [memory for memory in found if wanted.where.expired or not _is_expired(memory)]

    async def _fetch(self, memory_id: UUID) -> Kept | None:
        raw = await self._raw(memory_id)
        tenant = _tenant_of(raw)
        return None if raw is None or tenant is None else Kept(_memory(raw, tenant), tenant)

    async def _raw(self, memory_id: UUID) -> MemoryReply | None:
        try:
            return await self._wire.ask(MemoryReply, "GET", f"/v1/memories/{memory_id}/")
        except UnknownMemory:
            return None

    async def _page(
        self, tenant: Tenant, where: Where, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[Memory]:
        earlier = ({"created_at": {"lte": after[0].isoformat()}},) if after else ()
        found: list[Memory] = []
        async for raw in self._walk(within(tenant.id, where, *earlier), expired=where.expired):
            memory = _memory(raw, tenant.id)
            if after is not None and (memory.created_at, memory.id) >= after:
                continue
            if where.expired or not _is_expired(memory):
                found.append(memory)
            if len(found) == limit:
                break
        return found

    async def _walk(self, filters: Mapping[str, Any], *, expired: bool) -> AsyncIterator[MemoryReply]:
        """All that pass, newest first, a page at a time."""
        body = {"filters": filters, "show_expired": expired}
        page = 1
        while True:
            query = {"page": page, "page_size": PAGE}
            answer = await self._wire.ask(PageReply, "POST", "/v3/memories/", body=body, query=query)
            for memory in answer.results:
                yield memory
            if answer.next is None:
                return
            page += 1

    async def _size(self, tenant: Tenant, where: Where) -> tuple[int, int]:
        """Beyond a page, the tokens are reckoned from the newest ones."""
        body = {"filters": within(tenant.id, where), "show_expired": where.expired}
        query = {"page": 1, "page_size": PAGE}
        answer = await self._wire.ask(PageReply, "POST", "/v3/memories/", body=body, query=query)
        tokens = sum(tokens_in(memory.memory) for memory in answer.results)
        return answer.count, tokens * answer.count // max(len(answer.results), 1)

    async def _change(self, acting: Acting, before: Memory, update: Update) -> None:
        del acting
        raw = await self._raw(before.id)
        if raw is None:
            raise UnknownMemory
        metadata = dict(raw.metadata or {})
        if update.metadata is not None:
            ours = {name: value for name, value in metadata.items() if name.startswith(RESERVED)}
            metadata = {**_free(update.metadata), **ours}
        body: dict[str, Any] = {"metadata": metadata}
        if update.text is not None:
            body["text"] = update.text
            metadata[DIGEST] = digest_after(before, update.text) or metadata[DIGEST]
        if update.expires_at != "keep":
            expires_at = update.expires_at
            body["expiration_date"] = None if expires_at is None else _last_day(expires_at)
            metadata[f"{RESERVED}expires_at"] = None if expires_at is None else expires_at.isoformat()
        if update.occurred_at is not None:
            body["timestamp"] = int(update.occurred_at.timestamp())
            metadata[f"{RESERVED}occurred_at"] = update.occurred_at.isoformat()
        await self._wire.ask(Anything, "PUT", f"/v1/memories/{before.id}/", body=body)

    async def _forget(self, acting: Acting, memory_id: UUID) -> None:
        del acting
        await self._wire.ask(Anything, "DELETE", f"/v1/memories/{memory_id}/")

    async def _versions(self, rights: Rights, memory_id: UUID) -> list[Version]:
        # Whose a deleted one was, nobody can tell any more.
        await self._seen(rights, memory_id, to="read")
        answer = await self._wire.ask(HistoryReply, "GET", f"/v1/memories/{memory_id}/history/")
        return [
            Version(
                memory_id=memory_id,
                version=number,
                event=entry.event,
                text=entry.new_memory or entry.old_memory or "",
                previous=entry.old_memory,
                made_at=entry.created_at if entry.event == "ADD" else entry.updated_at,
            )
            for number, entry in enumerate(answer.root, 1)
        ]

    async def _judge(
        self, acting: Acting, before: Memory, feedback: Feedback | None, reason: str | None
    ) -> None:
        del acting
        body = {"memory_id": str(before.id), "feedback": feedback, "feedback_reason": reason}
        await self._wire.ask(Anything, "POST", "/v1/feedback/", body=body)

    async def _entities(self, tenant: Tenant, after: tuple[str, str], limit: int) -> list[EntityInUse]:
        found = [
            _entity(item, tenant.id) async for item in self._all_entities() if is_of(item.name, tenant.id)
        ]
        found.sort(key=lambda entity: (entity.type, entity.name))
        return [entity for entity in found if (entity.type, entity.name) > after][:limit]

    async def _all_entities(self) -> AsyncIterator[EntityReply]:
        page: int | None = 1
        while page is not None:
            query = {"page": page, "page_size": PAGE}
            answer = await self._wire.ask(EntitiesReply, "GET", "/v1/entities/", query=query)
            for entity in answer.results:
                yield entity
            page = page + 1 if answer.next else None

    async def holders(self, app: str) -> set[UUID]:
        named = [tenant_in(entity.name, app) async for entity in self._all_entities() if entity.type == "app"]
        return {tenant for tenant in named if tenant is not None}

    async def purge(self, tenancy: Tenancy) -> int:
        """Nothing: mem0 forgets what is deleted at once."""
        del tenancy
        return 0


def _described(tenant: Tenant, wanted: Addition, piece: Piece) -> dict[str, Any]:
    ours = {
        "tenant": str(tenant.id),
        "workspace": str(tenant.workspace) if tenant.workspace else None,
        "company": str(tenant.company) if tenant.company else None,
        "digest": piece.digest,
        "kind": piece.kind,
        "role": piece.role,
        "speaker": piece.speaker,
        "categories": list(piece.categories) or None,
        "importance": piece.importance,
        "occurred_at": piece.occurred_at.isoformat() if piece.occurred_at else None,
        "expires_at": wanted.expires_at.isoformat() if wanted.expires_at else None,
        "made_by": piece.made_by,
    }
    return {f"{RESERVED}{name}": value for name, value in ours.items() if value is not None}


def _free(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What an application says; it says nothing in our name."""
    return {name: value for name, value in metadata.items() if not name.startswith(RESERVED)}


def _tenant_of(raw: MemoryReply | None) -> UUID | None:
    given = (raw.metadata or {}).get(TENANT) if raw else None
    try:
        return UUID(given) if isinstance(given, str) else None
    except ValueError:
        return None


def _memory(raw: MemoryReply, tenant: UUID) -> Memory:
    return Memory(**_fields(raw, tenant))


def _found(raw: FoundMemory, tenant: Tenant, *, explain: bool) -> Found:
    details = raw.score_breakdown or {}
    breakdown = None
    if explain and details:
        breakdown = Breakdown(lexical=details.get("bm25") or 0.0, meaning=details.get("semantic"))
    return Found(**_fields(raw, tenant.id), score=raw.score, breakdown=breakdown)


def _fields(raw: MemoryReply, tenant: UUID) -> dict[str, Any]:
    metadata = raw.metadata or {}
    ours = {name: metadata.get(f"{RESERVED}{name}") for name in _OURS}
    return {
        "kind": "turn",
        **{name: value for name, value in ours.items() if value is not None},
        **named_in(raw, tenant),
        "categories": [*(metadata.get(f"{RESERVED}categories") or ()), *(raw.categories or ())],
        "id": raw.id,
        "text": raw.memory,
        "metadata": _free(metadata),
        "created_at": raw.created_at,
        "updated_at": raw.updated_at,
    }


def _entity(item: EntityReply, tenant: UUID) -> EntityInUse:
    return EntityInUse(
        type=item.type,
        name=unscoped(item.name, tenant),
        memories=item.total_memories or 0,
        first_at=item.created_at,
        updated_at=item.updated_at,
    )


def _is_expired(memory: Memory) -> bool:
    return memory.expires_at is not None and memory.expires_at <= datetime.now(UTC)


def _last_day(expires_at: datetime) -> str:
    """mem0 knows days alone: the last one on which it is there. The moment stands in the metadata."""
    return (expires_at - timedelta(microseconds=1)).astimezone(UTC).date().isoformat()
