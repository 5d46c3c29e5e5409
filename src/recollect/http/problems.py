"""Errors as RFC 9457 problem documents: the one place where an error becomes an HTTP answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from recollect.errors import RecollectError
from recollect.kit.logs import logger
from recollect.kit.validation import told

MEDIA_TYPE = "application/problem+json"
log = logger("http")


class InvalidField(BaseModel):
    field: str
    problem: str


class Problem(BaseModel):
    """What went wrong, and what to do about it (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["urn:recollect:problem:not_found"])
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable; write programs against this.")
    errors: list[InvalidField] | None = None


def problem_response(
    code: str,
    status: int,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    **extra: Any,
) -> Response:
    body = {
        "type": f"urn:recollect:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        **extra,
    }
    return Response(json.dumps(body), status, headers=headers, media_type=MEDIA_TYPE)


def response_to(error: RecollectError) -> Response:
    headers = dict(error.headers)
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers.setdefault("WWW-Authenticate", "Bearer")
    return problem_response(error.code, error.status, error.detail, headers=headers, **error.extra)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How an endpoint documents the problems it may answer with."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


async def _on_recollect_error(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, RecollectError)  # noqa: S101 - registered for this type alone
    if error.status >= 500:
        log.warning("request failed", code=error.code)
    return response_to(error)


async def _on_invalid(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this type alone
    return response_to_invalid(error)


def response_to_invalid(error: RequestValidationError) -> Response:
    listed, fields = told(error.errors(), inside=1)
    return problem_response("invalid_input", 422, listed, errors=fields)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this type alone
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_at(request))
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    detail = {
        404: "There is nothing at this address; /docs lists what there is.",
        405: "This address takes other methods; see the Allow header.",
    }.get(error.status_code, str(error.detail))
    return problem_response(code, error.status_code, detail, headers=headers)


def _methods_at(request: Request) -> list[str]:
    # Starlette names only the methods of the first route that has this path.
    return sorted(
        method
        for found in iter_route_contexts(request.app.routes)
        if isinstance(found.original_route, Route) and found.original_route.path_regex.match(request.url.path)
        for method in found.original_route.methods or ()
    )


def install(app: FastAPI) -> None:
    app.add_exception_handler(RecollectError, _on_recollect_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_exception)
