"""What keeps search good: vectors of the model in use, and an index for whoever has very many."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
from psycopg import sql

from recollect.db.tenancy import SERVICE, Tenancy
from recollect.engine.adding import spoken_text
from recollect.engine.embedding.models import Embedder
from recollect.engine.searching import EXACT
from recollect.engine.store import queries, vector_text
from recollect.kit.logs import logger

log = logger("engine")

BATCH = 256
DROP_BATCH = 5_000
_LOWEST_ID = UUID(int=0)
# An index for vectors can have no more dimensions than this.
MOST_DIMENSIONS = 2_000

Progress = Callable[[int], Awaitable[None]]


class Upkeep:
    def __init__(self, tenancy: Tenancy, admin: str, embedder: Embedder) -> None:
        self._tenancy = tenancy
        self._admin = admin
        self._embedder = embedder

    async def reembed(self, progress: Progress) -> int:
        """Give every memory a vector of the model in use, then forget those of others. What has none yet
        is found by its words meanwhile."""
        if not await self._another_model_was_used():
            return 0
        placed, after = 0, _LOWEST_ID
        while True:
            asked = {"after": after, "model": self._embedder.model, "batch": BATCH}
            async with self._tenancy.acting_as(SERVICE) as tx:
                rows = await tx.all(queries.without_vectors, asked)
            if not rows:
                break
            vectors = await self._embedder.embed([spoken_text(row["text"], row["speaker"]) for row in rows])
            parameters = {
                "model": self._embedder.model,
                "ids": [row["id"] for row in rows],
                "texts": [row["text"] for row in rows],
                "vectors": list(map(vector_text, vectors)),
            }
            async with self._tenancy.acting_as(SERVICE) as tx:
                placed += await tx.run(queries.place_vectors, parameters, last=True)
            after = rows[-1]["id"]
            await progress(placed)
        await self._drop_others()
        return placed

    async def _another_model_was_used(self) -> bool:
        async with self._tenancy.acting_as(SERVICE) as tx:
            row = await tx.one(queries.other_models, {"model": self._embedder.model}, last=True)
        return bool(row["are_there"])

    async def _drop_others(self) -> None:
        gone = DROP_BATCH
        while gone == DROP_BATCH:
            async with self._tenancy.acting_as(SERVICE) as tx:
                parameters = {"model": self._embedder.model, "batch": DROP_BATCH}
                gone = await tx.run(queries.drop_other_vectors, parameters)
                if gone < DROP_BATCH:
                    await tx.run(queries.forget_other_models, parameters, last=True)

    async def index(self) -> int:
        """Build an index of its own for each tenant with more memories than are compared one by one.

        For each tenant, since in a common one a search would wade through everybody else's; and only for
        the large ones, since adding to such an index costs more than all the rest of adding.
        """
        async with self._tenancy.acting_as(SERVICE) as tx:
            asked = {"model": self._embedder.model, "many": EXACT}
            tenants = await tx.all(queries.large_tenants, asked, last=True)
        built = 0
        for tenant in tenants:
            if tenant["is_indexed"]:
                continue
            if tenant["dimension"] > MOST_DIMENSIONS:
                log.warning("vectors are too long for an index", dimension=tenant["dimension"])
                continue
            try:
                await self._build(tenant["index_name"], tenant["tenant"], tenant["dimension"])
            except psycopg.Error as error:
                # One that cannot be built keeps nobody else from theirs; search does without it.
                log.warning("an index could not be built", tenant=str(tenant["tenant"]), state=error.sqlstate)
            else:
                built += 1
        return built

    async def _build(self, name: str, tenant: UUID, dimension: int) -> None:
        # Beside everybody's work, so not inside a transaction, and by the owner of the table.
        async with await psycopg.AsyncConnection.connect(self._admin, autocommit=True) as connection:
            await connection.execute("set search_path = public, extensions")
            await connection.execute("set maintenance_work_mem = '512MB'")
            # One that was begun and not finished would stay unusable for ever.
            await connection.execute(
                sql.SQL("drop index concurrently if exists {}").format(sql.Identifier(name))
            )
            await connection.execute(
                sql.SQL(
                    "create index concurrently {} on public.memory_vectors"
                    " using hnsw ((embedding::vector({})) vector_cosine_ops)"
                    " where tenant = {} and model = {} and dimension = {}"
                ).format(
                    sql.Identifier(name),
                    sql.Literal(dimension),
                    sql.Literal(tenant),
                    sql.Literal(self._embedder.model),
                    sql.Literal(dimension),
                )
            )
