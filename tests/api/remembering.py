"""Memories for tests: what was said, and what newer facts do to older ones."""

from __future__ import annotations

from typing import Any

import httpx
import psycopg


async def remember(http: httpx.AsyncClient, *texts: str, **about: Any) -> list[str]:
    """Store what was said; the ids of the turns."""
    about = {"user": "mia", "infer": False, **about}
    messages = [{"role": "user", "content": text} for text in texts]
    answer = await http.post("/api/memories", json={"messages": messages, **about})
    assert answer.status_code == 200, answer.text
    return [result["id"] for result in answer.json()["results"]]


async def supersede(database_url: str, older: str, newer: str) -> None:
    """As if the newer one said otherwise."""
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            "update public.memories set valid_until = now(), superseded_by = %s, event = 'SUPERSEDE',"
            " reason = 'a newer fact says otherwise' where id = %s",
            [newer, older],
        )


async def link(database_url: str, memory: str, other: str, similarity: float) -> None:
    """As if both said nearly the same."""
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            "insert into public.memory_links (memory_id, other_id, owner_id, workspace_id, similarity)"
            " select m.id, %s, m.owner_id, m.workspace_id, %s from public.memories m where m.id = %s",
            [other, similarity, memory],
        )
