"""For those who run the server: is it up, is it ready, how is it doing."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import psycopg
from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from starlette.responses import Response

from recollect.db import migrate
from recollect.db.failures import RETRY
from recollect.errors import Unavailable
from recollect.http.callers import Recollect
from recollect.http.problems import responses

READY_SECONDS = 5

router = APIRouter(tags=["operations"])


class Health(BaseModel):
    status: Literal["healthy"]
    mem0_mode: str


class Ready(BaseModel):
    status: Literal["ready"]
    migrations: int


@router.get("/health", summary="The process is up.", response_model=Health)
async def health(recollect: Recollect) -> Any:
    return {"status": "healthy", "mem0_mode": recollect.settings.mem0_mode}


@router.get(
    "/ready",
    summary="The database answers and has every migration.",
    response_model=Ready,
    responses=responses(503),
)
async def ready(request: Request, recollect: Recollect) -> Any:
    try:
        # One at a time: anybody may ask, and each question takes one of the database's connections.
        async with (
            asyncio.timeout(READY_SECONDS),
            request.app.state.ready_turn,
            await psycopg.AsyncConnection.connect(recollect.database.admin, connect_timeout=3) as connection,
        ):
            found = await migrate.status(connection)
    except (psycopg.Error, TimeoutError) as error:
        raise Unavailable("The database does not answer.", headers=RETRY) from error
    if found.pending or found.changed:
        raise Unavailable("The database lacks migrations; run recollect migrate.", headers=RETRY)
    return {"status": "ready", "migrations": len(found.applied)}


@router.get(
    "/metrics",
    summary="Figures for Prometheus.",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    return Response(generate_latest(request.app.state.registry), media_type=CONTENT_TYPE_LATEST)
