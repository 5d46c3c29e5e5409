"""The ASGI application: the edge, the routers, the API's description."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from prometheus_client import CollectorRegistry
from starlette.middleware import Middleware

from recollect.api import access, bank, operations, problems
from recollect.api.edge.body import Body
from recollect.api.edge.guard import Guard, hosts_for
from recollect.api.edge.observe import Observe
from recollect.bootstrap import Services

VERSION = "0.1.0"


def create_app(services: Services) -> FastAPI:
    settings = services.settings
    registry = CollectorRegistry()
    public_url = str(settings.public_url) if settings.public_url else None
    app = FastAPI(
        title="Recollect",
        summary="One memory server for AI applications.",
        version=VERSION,
        redoc_url=None,
        middleware=[
            Middleware(Observe, registry=registry),
            Middleware(Guard, hosts=hosts_for(settings.host, public_url)),
            Middleware(
                Body,
                max_bytes=settings.max_body_bytes,
                timeout_seconds=settings.body_timeout_seconds,
            ),
        ],
    )
    app.state.services = services
    app.state.registry = registry
    problems.install(app)
    for router in (operations.router, access.router, bank.router):
        app.include_router(router)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        components = schema.setdefault("components", {})
        problem = problems.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        components.setdefault("schemas", {}).update(problem.pop("$defs", {}) | {"Problem": problem})
        for unused in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(unused, None)
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "session": {"type": "apiKey", "in": "cookie", "name": "recollect_session"},
        }
        app.openapi_schema = schema
    return app.openapi_schema
