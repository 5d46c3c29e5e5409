"""Facts that somebody keeps under keys of their own: one memory for each key, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from recollect.db.tenancy import Transaction
from recollect.engine.adding import kept_digest
from recollect.engine.context import tokens_in
from recollect.engine.embedding.models import Embedder
from recollect.engine.language import terms_of
from recollect.engine.models import Entities, Tenant
from recollect.engine.store import queries, vector_text


@dataclass(frozen=True, slots=True)
class Prepared:
    """A text with what is stored beside it."""

    text: str
    words: str
    tokens: int
    vector: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Keep:
    """What is to be remembered under a key. ``memory_id`` is where it was, if it was."""

    key: str
    prepared: Prepared
    metadata: Mapping[str, Any]
    memory_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    id: UUID
    event: Literal["ADD", "UPDATE"]


async def prepare(embedder: Embedder, texts: Sequence[str]) -> list[Prepared]:
    different = list(dict.fromkeys(texts))
    if not different:
        return []
    vectors = await embedder.embed(different)
    prepared = {
        text: Prepared(text, " ".join(terms_of(text)), tokens_in(text), vector_text(vector), len(vector))
        for text, vector in zip(different, vectors, strict=True)
    }
    return [prepared[text] for text in texts]


async def keep(
    tx: Transaction, tenant: Tenant, entities: Entities, kept: Sequence[Keep], model: str, reason: str | None
) -> list[Kept]:
    """What became of each, in their order."""
    if not kept:
        return []
    parameters = {
        "kind": "user" if tenant.company is None else "company",
        "tenant": tenant.id,
        "of_user": entities.user,
        "of_app": entities.app,
        "ids": [each.memory_id for each in kept],
        "texts": [each.prepared.text for each in kept],
        "digests": [kept_digest(entities, each.key) for each in kept],
        "words": [each.prepared.words for each in kept],
        "sizes": [each.prepared.tokens for each in kept],
        "model": model,
        "dimension": kept[0].prepared.dimension,
        "vectors": " ".join(each.prepared.vector for each in kept),
        "metadata": Jsonb([dict(each.metadata) for each in kept]),
        "reason": reason,
    }
    rows = await tx.all(queries.keep_facts, parameters, last=True)
    return [Kept(row["id"], row["event"]) for row in rows]
