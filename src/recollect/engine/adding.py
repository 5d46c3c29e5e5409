"""How something comes to be remembered: turns as they were said, or facts distilled from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recollect.db.tenancy import Transaction
from recollect.engine.context import tokens_in
from recollect.engine.embedding.models import Embedder
from recollect.engine.extraction import rules
from recollect.engine.extraction.model import extract_with
from recollect.engine.extraction.models import Extraction, Fact, Said
from recollect.engine.language import fold, terms_of
from recollect.engine.models import (
    MAX_MESSAGES,
    MAX_TEXT,
    Added,
    Addition,
    Change,
    Entities,
    Message,
    TextTooLong,
    check_metadata,
)
from recollect.engine.store import digest, embedded, queries, vector_text
from recollect.errors import InvalidInput
from recollect.kit.text import storable
from recollect.llm.service import Llm

# Two facts with so similar vectors say nearly the same.
NEARLY = 0.9
FACTS_SHOWN = 50


class Adding:
    def __init__(self, embedder: Embedder, llm: Llm) -> None:
        self._embedder = embedder
        self._llm = llm

    async def add(self, tx: Transaction, wanted: Addition) -> Added:
        messages = checked(wanted)
        if wanted.infer:
            return await self._add_facts(tx, wanted, messages)
        return await self._add_turns(tx, wanted, messages)

    async def _add_turns(self, tx: Transaction, wanted: Addition, messages: Sequence[Message]) -> Added:
        texts = [message.text for message in messages]
        spoken = [spoken_text(message.text, message.name) for message in messages]
        vectors = await embedded(tx, self._embedder, spoken)
        request = request_digest(wanted, messages)
        parameters = {
            **_of_all(wanted),
            "texts": texts,
            "roles": [message.role for message in messages],
            "speakers": [message.name for message in messages],
            # The same request again stores nothing; the same words twice in one request are two turns.
            "digests": [digest(request.hex(), number) for number in range(len(messages))],
            "words": [" ".join(terms_of(text)) for text in spoken],
            "sizes": list(map(tokens_in, texts)),
            "model": self._embedder.model,
            "dimension": vectors.shape[1],
            "vectors": " ".join(map(vector_text, vectors)),
            "importance": wanted.importance,
            "occurred_at": [message.occurred_at or wanted.occurred_at for message in messages],
        }
        async with tx.still_open() as writing:
            rows = await writing.all(queries.add_turns, parameters, last=True)
        changes = [Change(id=row["id"], text=texts[row["nth"] - 1], event=row["event"]) for row in rows]
        return Added(results=changes)

    async def _add_facts(self, tx: Transaction, wanted: Addition, messages: Sequence[Message]) -> Added:
        said = [Said(message.role, message.text, message.name) for message in messages]
        extraction = await self._distil(tx, wanted, said)
        if not extraction.facts:
            return Added(
                results=[], not_understood=list(extraction.not_understood), made_by=extraction.made_by
            )
        vectors = await self._embedder.embed([fact.text for fact in extraction.facts])
        parameters = {
            **_of_all(wanted),
            **_of_facts(wanted, extraction.facts),
            "model": self._embedder.model,
            "dimension": vectors.shape[1],
            "vectors": " ".join(map(vector_text, vectors)),
            "occurred_at": wanted.occurred_at,
            "made_by": extraction.made_by,
            "nearly": NEARLY,
        }
        async with tx.still_open() as writing:
            rows = await writing.all(queries.add_facts, parameters, last=True)
        texts = [fact.text for fact in extraction.facts]
        return Added(
            results=_changes(rows, texts),
            not_understood=list(extraction.not_understood),
            made_by=extraction.made_by,
        )

    async def _distil(self, tx: Transaction, wanted: Addition, said: Sequence[Said]) -> Extraction:
        of = {"workspace": wanted.workspace, **wanted.entities.parameters, "limit": FACTS_SHOWN}
        rows = await tx.all(queries.current_facts, of, last=True)
        await tx.finish()
        if not self._llm.configured:
            return rules.extract(said)
        known: list[tuple[UUID, str]] = [(row["id"], row["text"]) for row in rows]
        return await extract_with(
            self._llm,
            tx.caller,
            said,
            known=known,
            instructions=wanted.instructions,
            workspace=wanted.workspace,
        )


def spoken_text(text: str, speaker: str | None) -> str:
    """A turn with who said it, as words and meaning are taken from it."""
    return f"{speaker}: {text}" if speaker else text


def request_digest(wanted: Addition, messages: Sequence[Message]) -> bytes:
    """What makes a request the same as another: to repeat it is to say nothing new."""
    return digest(
        wanted.entities.parameters,
        [(message.role, message.name, message.text, message.occurred_at) for message in messages],
        wanted.occurred_at,
        dict(wanted.metadata),
    )


def fact_digest(wanted: dict[str, Any], text: str) -> bytes:
    """The same for one entity in every run, however it is spelled and punctuated."""
    return digest("fact", _of_entity(wanted), " ".join(fold(text).split()).strip(" .!"))


def kept_digest(entities: Entities, key: str) -> bytes:
    """One memory for each key, whatever it says and however the one it is about is called."""
    return digest("kept", entities.app, key)


def checked(wanted: Addition) -> list[Message]:
    """The messages that say something, or an error that names what cannot be stored."""
    wanted.entities.named()
    check_metadata(wanted.metadata)
    messages = [message for message in wanted.messages if message.text]
    if not messages:
        raise InvalidInput("There is nothing to remember: no message has any text.")
    if len(messages) > MAX_MESSAGES:
        raise InvalidInput(f"At most {MAX_MESSAGES:,} messages at a time; send the rest in another request.")
    for message in messages:
        check_text(message.text)
    return messages


def check_text(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise TextTooLong(f"{TextTooLong.title()} This one has {len(text):,}.")
    return storable(text)


def _of_entity(parameters: dict[str, Any]) -> list[str | None]:
    """Whom a fact is about: user, agent and application in whichever run, or the run if none is named."""
    named = [parameters["of_user"], parameters["of_agent"], parameters["of_app"]]
    return named if any(named) else [*named, parameters["of_run"]]


def _of_all(wanted: Addition) -> dict[str, Any]:
    return {
        "workspace": wanted.workspace,
        **wanted.entities.parameters,
        "metadata": Jsonb(dict(wanted.metadata)),
        "categories": list(wanted.categories),
        "expires_at": wanted.expires_at,
        "reason": wanted.reason,
    }


def _of_facts(wanted: Addition, facts: Sequence[Fact]) -> dict[str, Any]:
    entity = wanted.entities.parameters
    return {
        "texts": [fact.text for fact in facts],
        "digests": [fact_digest(entity, fact.text) for fact in facts],
        "slots": [fact.slot and digest("slot", _of_entity(entity), fact.slot) for fact in facts],
        "words": [" ".join(terms_of(fact.text)) for fact in facts],
        "sizes": [tokens_in(fact.text) for fact in facts],
        "replaces": Jsonb([[str(each) for each in fact.replaces] for fact in facts]),
        "weights": [fact.importance if fact.importance is not None else wanted.importance for fact in facts],
    }


def _changes(rows: Sequence[dict[str, Any]], texts: Sequence[str]) -> list[Change]:
    """What was superseded is named by its old text, before what supersedes it."""
    return [
        Change(
            id=row["id"],
            text=row["before"] if row["event"] == "SUPERSEDE" else texts[row["nth"] - 1],
            event=row["event"],
        )
        for row in rows
    ]
