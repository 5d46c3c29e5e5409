"""Reads bodies: bounded in size and time, uncompressed, and strict JSON. Endpoints get them whole."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.errors import (
    BodyTooLarge,
    BodyTooSlow,
    MalformedRequest,
    RecollectError,
    UnsupportedBody,
)
from recollect.http.problems import response_to
from recollect.kit.text import strict_json

_FORM = "application/x-www-form-urlencoded"
_PARSED = "recollect.json"
# Mail programs unsubscribe with either kind of form (RFC 8058); that page does not read this one.
_MULTIPART, _ONE_CLICK = "multipart/form-data", "/unsubscribe"
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
_PROFILE = re.compile(r"/api/users/[^/]+/profile")


class NotAPatch(UnsupportedBody):
    """Send a change of this as application/json-patch+json or application/merge-patch+json, uncompressed."""


class ClientGone(Exception):
    """The client hung up before its body was complete."""


class Body:
    def __init__(self, app: ASGIApp, *, max_bytes: int, timeout_seconds: float) -> None:
        self.app = app
        self._max_bytes = max_bytes
        self._timeout = timeout_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await self.app(scope, receive, send)
            return
        try:
            body = await self._read(Headers(scope=scope), receive)
            _parse(scope, body)
        except ClientGone:
            return
        except RecollectError as error:
            # Whatever is left of the body is not worth reading: hang up instead.
            error.headers["Connection"] = "close"
            await response_to(error)(scope, receive, send)
            return
        await self.app(scope, _replay(body, receive), send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        if headers.get("content-encoding", "identity") != "identity":
            raise UnsupportedBody
        declared = headers.get("content-length", "0")
        if not declared.isdecimal():
            raise MalformedRequest("Content-Length is not a number.")
        if int(declared) > self._max_bytes:
            raise self._too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    body += message.get("body", b"")
                    if len(body) > self._max_bytes:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError as error:
            raise BodyTooSlow from error

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(f"A request body may be at most {self._max_bytes:,} bytes.")


def _has_body(scope: Scope) -> bool:
    return any(name in {b"content-length", b"transfer-encoding"} for name, _ in scope["headers"])


def _parse(scope: Scope, body: bytes) -> None:
    if not body:
        return
    media_type = media_type_of(Headers(scope=scope))
    if scope["method"] == "PATCH" and _PROFILE.fullmatch(scope["path"]):
        if media_type not in {JSON_PATCH, MERGE_PATCH}:
            raise NotAPatch(headers={"Accept-Patch": f"{JSON_PATCH}, {MERGE_PATCH}"})
        scope[_PARSED] = strict_json(body)
    elif media_type == "application/json":
        scope[_PARSED] = strict_json(body)
    elif media_type == _FORM and not scope["path"].startswith("/api/"):
        _check_form(body)
    elif not (media_type == _MULTIPART and scope["path"] == _ONE_CLICK):
        raise UnsupportedBody


def media_type_of(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _check_form(body: bytes) -> None:
    try:
        text = unquote_to_bytes(body).decode()
    except UnicodeDecodeError as error:
        raise MalformedRequest("The form is not UTF-8.") from error
    if "\x00" in text:
        raise MalformedRequest("The form contains a NUL character.")


class ParsedRequest(Request):
    """A request whose JSON is what the edge has parsed: read once, and by the strict rules."""

    async def json(self) -> Any:
        return self.scope[_PARSED]


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
