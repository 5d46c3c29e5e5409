"""So many requests per minute for each caller, and a multiple of that for each client address."""

from __future__ import annotations

import hmac
import math
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.errors import TooManyAttempts
from recollect.http.callers import session_token
from recollect.http.problems import response_to
from recollect.redis.limits import RateLimiter, Verdict
from recollect.redis.link import RedisLink

CALLERS_PER_ADDRESS = 10
"""A credential is not judged yet when it is counted: making them up yields no more than this many."""

_OPEN = frozenset({"/health", "/ready", "/metrics"})


class TooManyRequests(TooManyAttempts):
    """Too many requests; send the next one after as many seconds as Retry-After says."""

    code = "too_many_requests"


class Limit:
    """``key`` digests what identifies a caller, so that no credential or address lies in Redis."""

    def __init__(self, app: ASGIApp, *, link: RedisLink, per_minute: int, key: bytes) -> None:
        self.app = app
        self._key = key
        self._per_caller = RateLimiter(link, per_minute)
        self._per_address = RateLimiter(link, per_minute * CALLERS_PER_ADDRESS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"} or _is_open(scope["path"]):
            await self.app(scope, receive, send)
            return
        limit, verdict = await self._judge(HTTPConnection(scope))
        headers = _headers(limit, verdict)
        if not verdict.allowed:
            headers["Retry-After"] = str(verdict.retry_after)
            await response_to(TooManyRequests(headers=headers))(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers)
            await send(message)

        await self.app(scope, receive, send_with_headers)

    async def _judge(self, request: HTTPConnection) -> tuple[int, Verdict]:
        """The tighter of the two verdicts, with its limit. The address comes first: once it is used up,
        made-up credentials are not even counted."""
        address = _address(request)
        of_address = await self._per_address.take(self._digest("address", address))
        if not of_address.allowed:
            return self._per_address.limit, of_address
        of_caller = await self._per_caller.take(self._digest(*(_credential(request) or ("nobody", address))))
        if of_address.remaining < of_caller.remaining:
            return self._per_address.limit, of_address
        return self._per_caller.limit, of_caller

    def _digest(self, kind: str, value: str) -> str:
        return hmac.digest(self._key, f"{kind}:{value}".encode(), "sha256")[:16].hex()


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith("/static/")


def _credential(request: HTTPConnection) -> tuple[str, str] | None:
    # Exactly what will be judged later, and no more: whatever else varied would make many callers of one.
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        return ("bearer", token) if token else None
    try:
        session = session_token(request)
    except ValueError:  # the Host header is none
        return None
    return ("session", session) if session else None


def _address(request: HTTPConnection) -> str:
    host = request.client.host if request.client else "unknown"
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    # One subscriber has a whole /64 to choose addresses from.
    return address.packed[:8].hex()


def _headers(limit: int, verdict: Verdict) -> dict[str, str]:
    return {
        "RateLimit-Limit": str(limit),
        "RateLimit-Remaining": str(verdict.remaining),
        "RateLimit-Reset": str(math.ceil(verdict.resets_in)),
    }
