"""The API's description (OpenAPI 3.1), completed with what holds for every endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute, iter_route_contexts

from recollect.http.callers import COOKIE, SECURE_COOKIE
from recollect.http.problems import Problem, responses
from recollect.http.routing import scope_needed

SECURITY = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, a Supabase access token, or the service key.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SECURE_COOKIE,
        "description": f"Set by signing in. On loopback its name is {COOKIE}.",
    },
}
# The edge may refuse whatever is sent, to whichever endpoint.
_AT_THE_EDGE = (400, 408, 413, 415)
_FOR_A_CALLER = (401, 403, 503)


def describe(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        components = schema.setdefault("components", {})
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas = components.setdefault("schemas", {})
        schemas.update(problem.pop("$defs", {}) | {"Problem": problem})
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        components["securitySchemes"] = SECURITY
        for route in routes_of(app):
            for method in route.methods or ():
                operation = schema["paths"].get(route.path, {}).get(method.lower())
                if operation is not None:
                    _complete(operation, method, route)
        app.openapi_schema = schema
    return app.openapi_schema


def routes_of(app: FastAPI) -> Iterator[APIRoute]:
    for found in iter_route_contexts(app.routes):
        if isinstance(found.original_route, APIRoute):
            yield found.original_route


def _complete(operation: dict[str, Any], method: str, route: APIRoute) -> None:
    statuses = set(_AT_THE_EDGE)
    if method != "GET":
        statuses.add(403)  # a page of another site
    if needs := scope_needed(route.dependant):
        statuses.update(_FOR_A_CALLER)
        operation["security"] = [{name: []} for name in SECURITY]
        scope = "Takes any scope." if needs == "any" else f'Needs the scope "{needs}".'
        operation["description"] = " ".join(filter(None, (operation.get("description"), scope)))
    else:
        operation["security"] = []
    documented = operation["responses"]
    documented.update({str(status): answer for status, answer in responses(*statuses).items()})
    # FastAPI documents every validation error in a form of its own.
    if "422" in documented:
        documented.update({"422": responses(422)[422]})
