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
    nodes,
    operations,
    profile,
    profile_updates,
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
    profile_pages,
    webhooks_pages,
)

# They are tried in turn: what is asked most comes first.
ROUTERS = (
    bank.router,
    memories.router,
    brain.router,
    brain_agents.router,
    nodes.router,
    profile.router,
    profile_updates.router,
    chats.router,
    rule_prompts.router,
    rules.router,
    mem0.router,
    operations.router,
    events.router,
    access.router,
    workspaces.router,
    companies.router,
    profiles.router,
    jobs.router,
    cron.router,
    webhooks.router,
    inbound.router,
    mail.router,
    model.router,
    mail_pages.router,
    pages.router,
    memories_pages.router,
    brain_pages.router,
    profile_pages.router,
    jobs_pages.router,
    events_pages.router,
    webhooks_pages.router,
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
    for router in ROUTERS:
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=pages.STATIC))
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]  # how FastAPI is extended
    return app


def _limits(services: Services) -> tuple[Middleware, ...]:
    per_minute = services.settings.requests_per_minute
    if per_minute == 0:
        return ()
    key = services.secret.key_for("rate limits")
    return (Middleware(Limit, link=services.redis, per_minute=per_minute, key=key),)
