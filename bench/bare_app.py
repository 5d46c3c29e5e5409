"""The peer: FastAPI and psycopg as they come, the same indexed select, no authentication, no row security."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import uvicorn
from fastapi import FastAPI
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

SELECT = """
select id, user_id, namespace, key, value, created_at, updated_at from user_memory
where user_id = %s and namespace = %s and key > '' order by key limit 1001
"""


def bare_app(conninfo: str, *, autocommit: bool) -> FastAPI:
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        conninfo, max_size=10, open=False, kwargs={"row_factory": dict_row, "autocommit": autocommit}
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with pool:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/api/user/{user_id}/memory")
    async def read(user_id: UUID, namespace: str = "default") -> dict[str, Any]:
        async with pool.connection() as connection:
            cursor = await connection.execute(SELECT, (user_id, namespace))
            rows = await cursor.fetchall()
        for row in rows:
            row["value"] = json.loads(row["value"])
        return {"data": rows}

    return app


if __name__ == "__main__":
    conninfo, port, mode = sys.argv[1:]
    uvicorn.run(
        bare_app(conninfo, autocommit=mode == "autocommit"),
        port=int(port),
        log_level="warning",
        access_log=False,
    )
