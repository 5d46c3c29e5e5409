"""The ASGI application: the edge, the API and the dashboard."""

from __future__ import annotations

import asyncio
from importlib import metadata

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from recollect.api import (
    access,
    bank,
    brain,
    brain_agents,
    chats,
    companies,
    cron,
    events,
    inbound,
    jobs,
    mail,
    memories,
    model,
    operations,
    profiles,
    rule_prompts,
    rules,
    webhooks,
    workspaces,
)
from recollect.api.description import describe
from recollect.api.mem0 import routes as mem0
from recollect.bootstrap import Services
from recollect.http import problems
from recollect.http.edge.body import Body
from recollect.http.edge.guard import Guard, hosts_for
from recollect.http.edge.limit import Limit
from recollect.http.edge.observe import Observe
from recollect.web import (
    brain_pages,
    events_pages,
    jobs_pages,
    mail_pages,
    memories_pages,
    pages,
    webhooks_pages,
)

# Routes are tried in turn: what is asked most comes first.
PARTS = (
    bank,
    memories,
    brain,
    brain_agents,
    chats,
    rule_prompts,
    rules,
    mem0,
    operations,
    events,
    access,
    workspaces,
    companies,
    profiles,
    jobs,
    cron,
    webhooks,
    inbound,
    mail,
    model,
    mail_pages,
    pages,
    memories_pages,
    brain_pages,
    jobs_pages,
    events_pages,
    webhooks_pages,
)


def create_app(services: Services) -> FastAPI:
    settings = services.settings
    registry = CollectorRegistry()
    public_url = str(settings.public_url) if settings.public_url else None
    app = FastAPI(
        title="Recollect",
        summary="One memory server for AI applications.",
        version=metadata.version("recollect"),
        # Its own reference page fetches scripts from elsewhere; ours is part of the dashboard.
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(Observe, registry=registry),
            Middleware(Guard, hosts=hosts_for(settings.host, public_url)),
            *_limits(services),
            Middleware(
                Body,
                max_bytes=settings.max_body_bytes,
                timeout_seconds=settings.body_timeout_seconds,
            ),
        ],
    )
    app.state.services = services
    app.state.registry = registry
    app.state.gauges = operations.Gauges(registry, services.live)
    app.state.ready_turn = asyncio.Lock()
    problems.install(app)
    for part in PARTS:
        app.include_router(part.router)
    app.mount("/static", StaticFiles(directory=pages.STATIC))
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]  # how FastAPI is extended
    return app


def _limits(services: Services) -> tuple[Middleware, ...]:
    per_minute = services.settings.requests_per_minute
    if per_minute == 0:
        return ()
    key = services.secret.key_for("rate limits")
    return (Middleware(Limit, link=services.redis, per_minute=per_minute, key=key),)
