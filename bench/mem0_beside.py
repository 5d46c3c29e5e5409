"""Our engine beside mem0's library: the same machine, the same Postgres, the same vectors, in one run."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray

from bench.report import Figure, at_least
from recollect.access.models import NewUser
from recollect.bootstrap import Services, open_services
from recollect.db.tenancy import Caller
from recollect.engine.models import Addition, Entities, Message, Wanted, Where
from recollect.engine.searching import SENTENCE_ENCODER_WEIGHS
from recollect.engine.service import Engine
from recollect.settings import Settings

DIMENSION = 384
USERS = 100
ROWS = 10_000
SINGLE_ADDS = 300
SEARCHES = 200
DELETED = 1_000
WORDS = [f"{first}{second}" for first in ("ba", "ko", "ri", "su", "te", "no") for second in ("lan", "mor", "vit", "dex", "pul", "gar", "sil", "ton")] * 4
R = TypeVar("R")


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) + str(chance.randrange(40)) for _ in range(12))


def vector_of(text: str) -> NDArray[np.float32]:
    """The same for the same text, and for both."""
    drawn = np.random.default_rng(abs(hash(text)) % 2**63).standard_normal(DIMENSION).astype(np.float32)
    unit: NDArray[np.float32] = drawn / np.linalg.norm(drawn)
    return unit


class Given:
    """An embedder that has every vector ready: what is measured is the memory, not the model."""

    model = "bench"
    dimension = DIMENSION

    def __init__(self) -> None:
        self.known: dict[str, NDArray[np.float32]] = {}

    def vector(self, text: str) -> NDArray[np.float32]:
        if text not in self.known:
            self.known[text] = vector_of(text)
        return self.known[text]

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self.vector(text) for text in texts])


class Ours:
    def __init__(self, services: Services, engine: Engine, user: UUID) -> None:
        self._services, self._engine, self._caller = services, engine, Caller.user(user)

    async def _do(self, work: Callable[[Any], Awaitable[R]]) -> R:
        async with self._services.tenancy.acting_as(self._caller, for_one_call=True) as tx:
            return await work(tx)

    async def add(self, texts: Sequence[str], user: str) -> None:
        wanted = Addition([Message(content=text) for text in texts], Entities(user=user), infer=False)
        await self._do(lambda tx: self._engine.add(tx, wanted))

    async def search(self, query: str, user: str) -> list[str]:
        wanted = Wanted(query, Where(Entities(user=user)), limit=10)
        return [found.text for found in await self._do(lambda tx: self._engine.search(tx, wanted))]

    async def delete_all(self, user: str) -> None:
        await self._do(lambda tx: self._engine.delete_all(tx, Where(Entities(user=user))))


class Mem0s:
    def __init__(self, conninfo: str, given: Given, folder: Path) -> None:
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder), "OPENAI_API_KEY": "none"}
        from mem0 import Memory  # it reads the environment when it is imported

        self._memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "pgvector",
                    "config": {
                        "connection_string": conninfo,
                        "collection_name": "mem0_bench",
                        "embedding_model_dims": DIMENSION,
                        "hnsw": True,
                    },
                },
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._memory.embedding_model = _AsMem0Asks(given)

    def add(self, texts: Sequence[str], user: str) -> None:
        for text in texts:
            self._memory.add(text, user_id=user, infer=False)

    def search(self, query: str, user: str) -> list[str]:
        found = self._memory.search(query, filters={"user_id": user}, top_k=10, threshold=0.0)
        return [each["memory"] for each in found["results"]]

    def delete_all(self, user: str) -> None:
        self._memory.delete_all(user_id=user)


class _AsMem0Asks:
    def __init__(self, given: Given) -> None:
        self._given = given
        self.config = None

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        del memory_action
        vector: list[float] = self._given.vector(text).tolist()
        return vector

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text, memory_action) for text in texts]
