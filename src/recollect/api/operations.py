"""For those who run the server: is it up, is it ready, how is it doing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, ClassVar, Literal

import psycopg
from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from pydantic import BaseModel
from starlette.responses import Response

from recollect.bootstrap import Services
from recollect.db import migrate
from recollect.db.failures import RETRY
from recollect.db.tenancy import SERVICE
from recollect.errors import Unavailable
from recollect.events.live import Live
from recollect.http.callers import Recollect
from recollect.http.problems import responses

READY_SECONDS = 5
FRESH_SECONDS = 5.0

router = APIRouter(tags=["operations"])


class Gauges:
    """What is asked of the database for ``/metrics``, now and then: anybody may ask, and often."""

    HELP: ClassVar = {
        "waiting": "Jobs that wait, those for later included.",
        "running": "Jobs at work.",
        "failed": "Jobs that failed for good and wait for a person.",
        "oldest_seconds": "For how long the oldest job has been due.",
        "untold": "Events that are written and not yet told.",
    }

    def __init__(self, registry: CollectorRegistry, live: Live) -> None:
        self._read_at = -FRESH_SECONDS
        self._gauges = {
            name: Gauge(
                f"recollect_{'events' if name == 'untold' else 'jobs'}_{name}", text, registry=registry
            )
            for name, text in self.HELP.items()
        }
        listeners = Gauge("recollect_live_listeners", "Live connections of this server.", registry=registry)
        listeners.set_function(lambda: live.listeners)

    async def read(self, recollect: Services) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._read_at < FRESH_SECONDS:
            return
        self._read_at = now
        # Without the database the figures of the process are all the more welcome.
        with suppress(Unavailable):
            async with recollect.tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                for name, value in (await recollect.jobs.backlog(tx)).items():
                    self._gauges[name].set(value)


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
async def metrics(request: Request, recollect: Recollect) -> Response:
    gauges: Gauges = request.app.state.gauges
    await gauges.read(recollect)
    return Response(generate_latest(request.app.state.registry), media_type=CONTENT_TYPE_LATEST)
