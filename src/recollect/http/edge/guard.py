"""Refuses requests that a browser was tricked into, and addresses that are not text."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from recollect.errors import MalformedRequest, NotAllowed, RecollectError
from recollect.http.problems import response_to

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(?P<name>[a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


class UnknownHost(MalformedRequest):
    """This server does not go by that name; set RECOLLECT_PUBLIC_URL to the address people use."""

    code = "unknown_host"


class CrossSite(NotAllowed):
    """A page of another site may not change anything here."""

    code = "cross_site"


class Guard:
    """``hosts`` are the names this server answers to; None means any, for a server that is not on
    loopback and has no public address set."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str] | None) -> None:
        self.app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            try:
                self._check(scope)
            except RecollectError as error:
                if scope["type"] == "websocket":
                    await send({"type": "websocket.close", "code": 1008})
                else:
                    await response_to(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        _check_address(scope)
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        named = _HOST.fullmatch(host)
        # Against DNS rebinding: a page whose name was pointed at loopback still sends its own name.
        if named is None or (self._hosts is not None and named["name"] not in self._hosts):
            raise UnknownHost
        # A browser sends cookies along by itself; an Authorization header it does not.
        # A WebSocket of another site's page could read what is told here, which is as bad as writing.
        if scope.get("method") not in _SAFE and "authorization" not in headers:
            _check_same_site(headers, host)


def hosts_for(bound_to: str, public_url: str | None) -> frozenset[str] | None:
    public = {_name_in(public_url)} if public_url else set()
    if public or _is_loopback(bound_to):
        return _LOOPBACK | public | {f"[{bound_to}]" if ":" in bound_to else bound_to}
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _name_in(url: str) -> str:
    name = urlsplit(url).hostname or ""
    return f"[{name}]" if ":" in name else name


def _check_same_site(headers: Headers, host: str) -> None:
    fetch_site = headers.get("sec-fetch-site")
    if fetch_site is not None:
        if fetch_site not in {"same-origin", "none"}:
            raise CrossSite
        return
    # Older browsers send Origin alone; a client that sends neither is not a browser.
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in {f"http://{host}", f"https://{host}"}:
        raise CrossSite


def _check_address(scope: Scope) -> None:
    for part in (scope.get("raw_path") or b"", scope["query_string"]):
        if b"%" not in part:
            continue
        try:
            text = unquote_to_bytes(part).decode()
        except UnicodeDecodeError as error:
            raise MalformedRequest("The address is not UTF-8.") from error
        if "\x00" in text:
            raise MalformedRequest("The address contains a NUL character.")
