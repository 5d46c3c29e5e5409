"""Memories for tests: turns as they were said, and facts as if they had been distilled."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import httpx
from psycopg.types.json import Jsonb

from recollect.bootstrap import Services
from recollect.db.tenancy import Caller
from recollect.engine.context import tokens_in
from recollect.engine.language import terms_of
from recollect.engine.store import digest, queries, vector_text


async def remember(http: httpx.AsyncClient, *texts: str, **about: Any) -> list[str]:
    """Store what was said; the ids of the turns."""
    about = {"user": "mia", "infer": False, **about}
    messages = [{"role": "user", "content": text} for text in texts]
    answer = await http.post("/api/memories", json={"messages": messages, **about})
    assert answer.status_code == 200, answer.text
    return [result["id"] for result in answer.json()["results"]]


async def store_fact(
    services: Services, caller: Caller, text: str, *, slot: str | None = None, nearly: float = 0.9
) -> UUID:
    """A fact about mia, which supersedes the one before that answers the same question."""
    [vector] = await services.engine.embedder.embed([text])
    parameters = {
        "workspace": None,
        "of_user": "mia",
        **dict.fromkeys(("of_agent", "of_app", "of_run", "occurred_at", "expires_at", "reason")),
        "texts": [text],
        "digests": [digest(text)],
        "slots": [slot and digest(slot)],
        "words": [" ".join(terms_of(text))],
        "sizes": [tokens_in(text)],
        "replaces": Jsonb([[]]),
        "weights": [None],
        "model": services.engine.embedder.model,
        "vectors": [vector_text(vector)],
        "metadata": Jsonb({}),
        "categories": [],
        "made_by": "rules",
        "nearly": nearly,
    }
    async with services.tenancy.acting_as(caller) as tx:
        rows = await tx.all(queries.add_facts, parameters)
    [stored] = [row["id"] for row in rows if row["event"] == "ADD"]
    found: UUID = stored
    return found
