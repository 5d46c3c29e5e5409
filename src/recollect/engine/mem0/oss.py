"""mem0's library as the engine (MEM0_MODE=oss)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.errors import UniqueViolation

from recollect.db.tenancy import SERVICE, Tenancy
from recollect.engine.context import tokens_in
from recollect.engine.embedding.models import Embedder
from recollect.engine.mem0.adapter import Mem0Engine, digest_after
from recollect.engine.mem0.library import SCOPE, Library, acting
from recollect.engine.mem0.models import Acting, Kept, Piece, Rights
from recollect.engine.mem0.store import queries
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
from recollect.engine.store import scope_parameters
from recollect.errors import Conflict
from recollect.llm.service import Llm

PURGE_BATCH = 1_000

# What stands beside a memory's text and metadata, under "of" in its payload.
_OURS = frozenset(Memory.model_fields)


class Mem0Library(Mem0Engine):
    name = "oss"

    def __init__(
        self, library: Library, tenancy: Tenancy, embedder: Embedder, llm: Llm, *, keep_deleted_days: int
    ) -> None:
        super().__init__(llm)
        self._library = library
        self._tenancy = tenancy
        self._embedder = embedder
        self._keep_deleted = timedelta(days=keep_deleted_days)

    async def _known(self, tenant: Tenant, pieces: Sequence[Piece]) -> dict[str, UUID]:
        asked = {"tenant": tenant.id, "digests": [piece.digest for piece in pieces]}
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            return {row["digest"]: row["id"] for row in await tx.all(queries.known_digests, asked, last=True)}

    async def _put(self, acting_: Acting, wanted: Addition, piece: Piece) -> UUID | None:
        payload = {"of": self._described(acting_.tenant, wanted, piece), "metadata": dict(wanted.metadata)}

        def add(memory: Any) -> Any:
            # As a user's, whoever said it: what a system says, the library would leave out.
            said = [{"role": "user", "content": piece.text}]
            return memory.add(said, user_id=str(acting_.tenant.id), metadata=payload, infer=False)

        acting.set(acting_)
        try:
            added = await self._library.run(self._embedder, add)
        except Conflict as error:
            if isinstance(error.__cause__, UniqueViolation):
                return None
            raise
        return UUID(added["results"][0]["id"])

    def _described(self, tenant: Tenant, wanted: Addition, piece: Piece) -> dict[str, Any]:
        entities = wanted.entities
        of = {
            "owner": _text(tenant.owner),
            "workspace": _text(tenant.workspace),
            "company": _text(tenant.company),
            "user": entities.user,
            "agent": entities.agent,
            "app": entities.app,
            "run": entities.run,
            "kind": piece.kind,
            "role": piece.role,
            "speaker": piece.speaker,
            "digest": piece.digest,
            "categories": list(piece.categories),
            "importance": piece.importance,
            "occurred_at": _moment(piece.occurred_at),
            "expires_at": _moment(wanted.expires_at),
            "made_by": piece.made_by,
            "model": self._embedder.model,
            "tokens": tokens_in(piece.text),
        }
        return {name: value for name, value in of.items() if value is not None}

    async def _find(self, tenant: Tenant, wanted: Wanted) -> list[Found]:
        scope = {"tenant": str(tenant.id), **_scope(wanted.where)}
        if scope["values"] is not None:
            scope["values"] = json.dumps(scope["values"].obj)
        filters = {"user_id": str(tenant.id), SCOPE: json.dumps(scope)}

        def search(memory: Any) -> Any:
            return memory.search(
                wanted.query,
                top_k=wanted.limit,
                filters=filters,
                threshold=wanted.threshold,
                explain=wanted.explain,
                # What has expired is left out before, to the second; the library knows days alone.
                show_expired=True,
            )

        found = await self._library.run(self._embedder, search)
        return [_found(item) for item in found["results"]]

    async def _fetch(self, memory_id: UUID) -> Kept | None:
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            row = await tx.maybe(queries.fetch_memory, {"id": memory_id}, last=True)
        return Kept(_memory(row), row["tenant"]) if row else None

    async def _page(
        self, tenant: Tenant, where: Where, after: tuple[datetime, UUID] | None, limit: int
    ) -> list[Memory]:
        after_at, after_id = after or (None, None)
        asked = {
            "tenant": tenant.id,
            **_scope(where),
            "after_at": after_at,
            "after_id": after_id,
            "limit": limit,
        }
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            return [_memory(row) for row in await tx.all(queries.page, asked, last=True)]

    async def _size(self, tenant: Tenant, where: Where) -> tuple[int, int]:
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            row = await tx.one(queries.count, {"tenant": tenant.id, **_scope(where)}, last=True)
        return row["memories"], row["tokens"]

    async def _change(self, acting_: Acting, before: Memory, update: Update) -> None:
        changed: dict[str, Any] = {}
        if update.text is not None:
            changed["tokens"] = tokens_in(update.text)
            if (is_now := digest_after(before, update.text)) is not None:
                changed["digest"] = is_now
        if update.expires_at != "keep":
            changed["expires_at"] = _moment(update.expires_at)
        if update.occurred_at is not None:
            changed["occurred_at"] = _moment(update.occurred_at)
        await self._rewrite(acting_, before.id, update.text, update.metadata, changed)

    async def _rewrite(
        self,
        acting_: Acting,
        memory_id: UUID,
        text: str | None,
        metadata: Mapping[str, Any] | None,
        changed: Mapping[str, Any],
    ) -> None:
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            row = await tx.maybe(queries.fetch_memory, {"id": memory_id}, last=True)
        if row is None:
            raise UnknownMemory
        # A new vector is made in any case.
        of = {**row["payload"]["of"], "model": self._embedder.model, **changed}
        payload: dict[str, Any] = {"of": {name: value for name, value in of.items() if value is not None}}
        if metadata is not None:
            payload["metadata"] = dict(metadata)
        acting.set(acting_)
        await self._library.run(
            self._embedder, lambda memory: memory.update(str(memory_id), text=text, metadata=payload)
        )

    async def _forget(self, acting_: Acting, memory_id: UUID) -> None:
        def delete(memory: Any) -> None:
            try:
                memory.delete(str(memory_id))
            except ValueError as error:
                # Somebody else was faster.
                raise UnknownMemory from error

        acting.set(acting_)
        await self._library.run(self._embedder, delete)

    async def _versions(self, rights: Rights, memory_id: UUID) -> list[Version]:
        rows = await self._library.run(self._embedder, lambda memory: memory.history(str(memory_id)))
        if not rows or not rights.may("read", rows[0]["tenant"]):
            raise UnknownMemory
        return [
            Version(
                memory_id=row["memory_id"],
                version=row["version"],
                event=row["event"],
                # What was deleted is told as it was.
                text=row["new_memory"] if row["new_memory"] is not None else row["old_memory"],
                previous=row["old_memory"],
                actor=row["actor"],
                reason=row["reason"],
                made_at=row["made_at"],
            )
            for row in rows
        ]

    async def _judge(
        self, acting_: Acting, before: Memory, feedback: Feedback | None, reason: str | None
    ) -> None:
        judging = Acting(acting_.tenant, acting_.actor, None, "FEEDBACK")
        await self._rewrite(judging, before.id, None, None, {"feedback": feedback, "feedback_reason": reason})

    async def _entities(self, tenant: Tenant, after: tuple[str, str], limit: int) -> list[EntityInUse]:
        asked = {"tenant": tenant.id, "after_type": after[0], "after_name": after[1], "limit": limit}
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            return [EntityInUse(**row) for row in await tx.all(queries.entities, asked, last=True)]

    async def holders(self, app: str) -> set[UUID]:
        async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
            return {row["tenant"] for row in await tx.all(queries.holders, {"app": app}, last=True)}

    async def purge(self, tenancy: Tenancy) -> int:
        """Forget the history of what was deleted long enough ago, a bounded batch per transaction."""
        purged = 0
        while True:
            async with tenancy.acting_as(SERVICE) as tx:
                parameters = {"age": self._keep_deleted, "batch": PURGE_BATCH}
                gone = await tx.run(queries.purge, parameters, last=True)
            purged += gone
            if gone < PURGE_BATCH:
                return purged


def _scope(where: Where) -> dict[str, Any]:
    """What ``mem0.memories_in`` takes. The library supersedes nothing."""
    scope = scope_parameters(where)
    return {name: value for name, value in scope.items() if name not in {"workspace", "superseded"}}


def _memory(row: Mapping[str, Any]) -> Memory:
    return Memory(**_fields(row["id"], row["payload"]))


def _found(item: Mapping[str, Any]) -> Found:
    # As the library tells it: what was beside the text in the payload is its "metadata".
    beside = item["metadata"]
    payload = {**beside, "data": item["memory"], **{at: item[at] for at in ("created_at", "updated_at")}}
    details = item.get("score_details")
    breakdown = None
    if details:
        breakdown = Breakdown(lexical=details.get("bm25_score") or 0.0, meaning=details.get("semantic_score"))
    return Found(**_fields(item["id"], payload), score=item["score"], breakdown=breakdown)


def _fields(memory_id: Any, payload: Mapping[str, Any]) -> dict[str, Any]:
    of = payload["of"]
    return {
        "id": memory_id,
        "text": payload["data"],
        "metadata": payload.get("metadata") or {},
        "created_at": payload["created_at"],
        "updated_at": payload["updated_at"],
        **{name: of[name] for name in _OURS if name in of},
    }


def _text(given: UUID | None) -> str | None:
    return str(given) if given is not None else None


def _moment(given: datetime | None) -> str | None:
    return given.isoformat() if given is not None else None
