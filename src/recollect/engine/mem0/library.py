"""mem0's library at work on our Postgres: with our embedder, our scope in its searches, and its history in
the database. It is loaded when it is first needed, with its telemetry off and its home in ours."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self, TypeVar

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from recollect.db.failures import told_to_callers
from recollect.engine.embedding.models import Embedder
from recollect.engine.mem0.models import AT_ONCE, Acting
from recollect.engine.mem0.store import queries
from recollect.engine.store import vector_text
from recollect.settings import keep_mem0_at_home

T = TypeVar("T")

POOL_TIMEOUT_SECONDS = 5
EMBEDDING_SECONDS = 60
SCOPE = "scope"
"""Under this name a search's whole scope travels through the library, as JSON."""

acting: ContextVar[Acting] = ContextVar("acting")
"""For whom the library works at the moment: it has no place for that in its calls."""


class Library:
    """Runs calls of the library in threads, a few at once."""

    def __init__(self, conninfo: str, home: Path) -> None:
        self._conninfo = conninfo
        self._home = home
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._loading = asyncio.Lock()
        self._pool: ConnectionPool[Any] | None = None
        self._memory: Any = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._pool is not None:
            await asyncio.to_thread(self._pool.close)

    async def run(self, embedder: Embedder, work: Callable[[Any], T]) -> T:
        """What ``work`` makes of mem0's Memory."""
        async with self._loading:
            if self._memory is None:
                loop = asyncio.get_running_loop()
                self._memory = await asyncio.to_thread(self._load, embedder, loop)
        async with self._turns:
            with told_to_callers():
                return await asyncio.to_thread(work, self._memory)

    def _load(self, embedder: Embedder, loop: asyncio.AbstractEventLoop) -> Any:
        keep_mem0_at_home(self._home)
        # It says what it stores.
        logging.getLogger("mem0").setLevel(logging.WARNING)
        self._pool = ConnectionPool(
            self._conninfo,
            min_size=0,
            max_size=AT_ONCE,
            timeout=POOL_TIMEOUT_SECONDS,
            configure=_become_the_service,
            check=ConnectionPool.check_connection,
            # A statement that was prepared is planned for everybody after a while, and then for nobody well.
            kwargs={"prepare_threshold": None},
            open=True,
        )
        return _memory(self._pool, embedder, loop)


def _become_the_service(connection: psycopg.Connection[Any]) -> None:
    connection.autocommit = True
    connection.execute("set role service_role")
    # The library names its tables without their schema.
    connection.execute("set search_path = mem0, public, extensions")
    connection.autocommit = False


def _memory(pool: ConnectionPool[Any], embedder: Embedder, loop: asyncio.AbstractEventLoop) -> Any:
    from mem0 import Memory  # noqa: PLC0415 - an extra, and slow to load
    from mem0.configs.base import MemoryConfig  # noqa: PLC0415

    # What it makes of this is replaced at once by what follows; nothing connects to anything.
    config = MemoryConfig(
        vector_store={"provider": "pgvector", "config": {"connection_pool": _Unused()}},
        llm={"provider": "openai", "config": {"api_key": "unused"}},
        embedder={"provider": "openai", "config": {"api_key": "unused"}},
        history_db_path=":memory:",
    )
    memory = Memory(config)
    memory.db.close()
    memory.db = _History(pool)
    memory.embedding_model = _Embedding(embedder, loop)
    memory.vector_store = _collection(pool, embedder)
    # Names are looked for in texts only where spaCy is there too, and never in what is stored as it was said.
    memory._entity_store = _NoEntities()
    return memory


class _Unused:
    def close(self) -> None: ...


class _Embedding:
    """Our embedder, asked from a thread."""

    def __init__(self, embedder: Embedder, loop: asyncio.AbstractEventLoop) -> None:
        self._embedder = embedder
        self._loop = loop

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = "add") -> list[list[float]]:
        del memory_action
        asked: Future[Any] = asyncio.run_coroutine_threadsafe(self._embedder.embed(list(texts)), self._loop)
        vectors: list[list[float]] = asked.result(EMBEDDING_SECONDS).tolist()
        return vectors


def _collection(pool: ConnectionPool[Any], embedder: Embedder) -> Any:
    from mem0.vector_stores.pgvector import OutputData, PGVector  # noqa: PLC0415

    class Collection(PGVector):  # type: ignore[misc]  # it has no types
        """Its own store, but that reading goes by our scope: one tenant, exactly, and in any filter."""

        def list_cols(self) -> list[str]:
            # The migration has made it.
            return [self.collection_name]

        def search(
            self, query: str, vectors: list[float], top_k: int = 5, filters: dict[str, Any] | None = None
        ) -> list[Any]:
            del query
            asked = {"vector": _vector(vectors), "model": embedder.model, "limit": top_k, **_scope(filters)}
            with self.connection_pool.connection() as connection:
                rows = connection.execute(queries.nearest.text, asked).fetchall()
            return [OutputData(id=str(id_), score=max(0.0, 1.0 - far), payload=of) for id_, far, of in rows]

        def keyword_search(
            self, query: str, top_k: int = 5, filters: dict[str, Any] | None = None
        ) -> list[Any]:
            asked = {"words": query, "limit": top_k, **_scope(filters)}
            with self.connection_pool.connection() as connection:
                rows = connection.execute(queries.saying.text, asked).fetchall()
            return [OutputData(id=str(id_), score=score, payload=of) for id_, score, of in rows]

    return Collection(
        dbname=None,
        collection_name="memories",
        embedding_model_dims=None,
        user=None,
        password=None,
        host=None,
        port=None,
        diskann=False,
        hnsw=False,
        connection_pool=pool,
    )


def _vector(numbers: list[float]) -> str:
    import numpy as np  # noqa: PLC0415

    return vector_text(np.asarray(numbers, dtype=np.float32))


def _scope(filters: dict[str, Any] | None) -> dict[str, Any]:
    """Without a scope there is nothing to see."""
    given: dict[str, Any] = json.loads((filters or {})[SCOPE])
    return given


class _History:
    """Where the library notes what becomes of memories, in place of a file beside the database."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool = pool

    def add_history(
        self, memory_id: str, old_memory: str | None, new_memory: str | None, event: str, **_: Any
    ) -> None:
        who = acting.get()
        parameters = {
            "memory_id": memory_id,
            "owner": who.tenant.owner,
            "workspace": who.tenant.workspace,
            "company": who.tenant.company,
            "event": who.event or event,
            "old": old_memory,
            "new": new_memory,
            "actor": who.actor,
            "reason": who.reason,
        }
        with self._pool.connection() as connection:
            connection.execute(queries.note.text, parameters)

    def get_history(self, memory_id: str) -> list[dict[str, Any]]:
        with self._pool.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
            rows: list[dict[str, Any]] = cursor.execute(queries.versions.text, {"id": memory_id}).fetchall()
        return rows

    def close(self) -> None: ...


class _NoEntities:
    """Where the library would link names to memories."""

    def search(self, **_: Any) -> list[Any]:
        return []

    def insert(self, **_: Any) -> None: ...

    def list(self, **_: Any) -> Sequence[Sequence[Any]]:
        return [[]]
