"""Request ids, one log line and one measurement per request, and a plain answer to the unforeseen."""

from __future__ import annotations

import re
import time
import traceback
from secrets import token_hex
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.http.problems import problem_response
from recollect.kit.logs import logger

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
HUNG_UP = 499
"""What is recorded when the client left before there was an answer."""
log = logger("http")


class Observe:
    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self.app = app
        self._requests = Counter(
            "recollect_http_requests_total",
            "Requests answered.",
            ("method", "route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "recollect_http_request_seconds",
            "Time to answer.",
            ("route",),
            registry=registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        status: int | None = None
        started = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).append("X-Request-ID", request_id)
            await send(message)

        # Not unbound again: a request runs in a task, whose context ends with it.
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await self.app(scope, receive, send_with_id)
        except Exception as error:  # noqa: BLE001 - the last resort of every request
            log.error("request failed", route=_route(scope), **_where(error))  # noqa: TRY400 - quotes values
            if status is None:
                answer = problem_response(
                    "internal_error", 500, f"This is our fault. Quote request {request_id}."
                )
                await answer(scope, receive, send_with_id)
        finally:
            self._record(scope, status or HUNG_UP, time.perf_counter() - started)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = _route(scope)
        # Clients can make methods up, and each would be a metric of its own.
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._requests.labels(method, route, status).inc()
        self._seconds.labels(route).observe(seconds)
        log.info(
            "request",
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 2),
        )


def _route(scope: Scope) -> str:
    # The template, not the path: paths carry ids, and would make a metric each.
    route = scope.get("route")
    if route is None and scope["path"].startswith("/static/"):
        return "/static"
    return getattr(route, "path", "unmatched")


def _where(error: BaseException) -> dict[str, Any]:
    """What failed and where, without what it said: a database's message quotes the values at hand."""
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "error": type(error).__qualname__,
        "cause": type(error.__cause__).__qualname__ if error.__cause__ else None,
        "sqlstate": getattr(error, "sqlstate", None),
        "trace": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return str(value, "ascii")
    return token_hex(8)
