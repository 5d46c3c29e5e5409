"""How memories are changed: one or many, all or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from recollect.db.tenancy import Transaction
from recollect.engine.adding import check_text, fact_digest, spoken_text
from recollect.engine.context import tokens_in
from recollect.engine.embedding.models import Embedder
from recollect.engine.language import terms_of
from recollect.engine.models import Memory, UnknownMemory, Update, check_metadata
from recollect.engine.store import digest, memory_from, queries, vector_text
from recollect.errors import InvalidInput

_OF_TEXT = ("text", "words", "tokens", "digest", "vector", "model")


class Changing:
    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def change(self, tx: Transaction, wanted: Sequence[Update], reason: str | None) -> list[Memory]:
        # In the order of their ids, so that two who change the same ones do not wait for each other.
        updates = sorted(map(checked_update, wanted), key=lambda update: update.memory_id)
        rows = await self._new_texts(tx, updates)
        changed: list[Memory] = []
        async with tx.still_open() as writing:
            for update in updates:
                parameters = {
                    **_parameters(update),
                    **dict.fromkeys(_OF_TEXT),
                    **(rows.pop(0) if update.text is not None else {}),
                    "reason": reason,
                }
                # Of several, none stands before it is known that all are there.
                row = await writing.maybe(queries.change_memory, parameters, last=len(updates) == 1)
                if row is None:
                    raise UnknownMemory
                changed.append(memory_from(row))
        return changed

    async def _new_texts(self, tx: Transaction, updates: Sequence[Update]) -> list[dict[str, Any]]:
        """What is stored with each new text, in their order."""
        texts = [(update.memory_id, update.text) for update in updates if update.text is not None]
        if not texts:
            return []
        rows = await tx.all(queries.speakers_of, {"ids": [memory_id for memory_id, _ in texts]}, last=True)
        # Nothing may be held while vectors are made, which can take another server.
        await tx.finish()
        before: dict[UUID, DictRow] = {row["id"]: row for row in rows}
        if any(memory_id not in before for memory_id, _ in texts):
            raise UnknownMemory
        spoken = [spoken_text(text, before[memory_id]["speaker"]) for memory_id, text in texts]
        vectors = await self._embedder.embed(spoken)
        return [
            {
                "text": text,
                "words": " ".join(terms_of(said)),
                "tokens": tokens_in(text),
                "digest": _digest(before[memory_id], text),
                "model": self._embedder.model,
                "vector": vector_text(vector),
            }
            for (memory_id, text), said, vector in zip(texts, spoken, vectors, strict=True)
        ]


def checked_update(update: Update) -> Update:
    if (update.text, update.metadata, update.expires_at, update.occurred_at) == (None, None, "keep", None):
        raise InvalidInput("There is nothing to change: give text, metadata, expires_at or occurred_at.")
    if update.metadata is not None:
        check_metadata(update.metadata)
    if update.text is None:
        return update
    text = check_text(update.text.strip())
    if not text:
        raise InvalidInput("text: a memory says something; to forget it, delete it.")
    return replace(update, text=text)


def _parameters(update: Update) -> dict[str, Any]:
    keeps = update.expires_at == "keep"
    return {
        "id": update.memory_id,
        "metadata": None if update.metadata is None else Jsonb(dict(update.metadata)),
        "keep_expiry": keeps,
        "expires_at": None if keeps else update.expires_at,
        "occurred_at": update.occurred_at,
    }


def _digest(before: DictRow, text: str) -> bytes:
    return fact_digest(before, text) if before["kind"] == "fact" else digest("edited", before["id"])
