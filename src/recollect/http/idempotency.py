"""Idempotency-Key: a POST sent twice happens once, and is answered the same."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import Header, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from recollect.access.answers import Answer, Answers
from recollect.db.tenancy import Transaction
from recollect.errors import InvalidInput
from recollect.http.callers import services
from recollect.http.edge.body import ParsedRequest
from recollect.kit.secret import fingerprint

# Structured headers allow no more, and neither end of it is blank: servers strip that.
PATTERN = r"^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$"

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class _AnsweredBefore(Exception):
    def __init__(self, answer: Answer) -> None:
        self.answer = answer


class RecollectRoute(APIRoute):
    """A route of the API: takes JSON as the edge has parsed it, and honours Idempotency-Key on POST."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        methods = self.methods or set()
        if methods <= {"GET", "HEAD", "DELETE"}:
            return handle

        async def handle_parsed(request: Request) -> Response:
            request = ParsedRequest(request.scope, request.receive)
            key = request.headers.get("idempotency-key") if request.method == "POST" else None
            if key is None:
                return await handle(request)
            return await _Once(request, key).answer(handle)

        return handle_parsed


class _Once:
    def __init__(self, request: Request, key: str) -> None:
        if not re.fullmatch(PATTERN, key):
            raise InvalidInput("Idempotency-Key: 1 to 255 printable ASCII characters.")
        self._request = request
        self._key = key
        self._answers = Answers(services(request).secret)
        self._transaction: Transaction | None = None

    async def answer(self, handle: Callable[[Request], Awaitable[Response]]) -> Response:
        self._request.state.begin = self._claim
        try:
            response = await handle(self._request)
        except _AnsweredBefore as before:
            return _again(before.answer)
        if self._transaction is not None and response.status_code < 400:
            await self._answers.keep(self._transaction, self._key, _as_answer(response))
        return response

    async def _claim(self, tx: Transaction) -> None:
        before = await self._answers.claim(tx, self._key, await self._fingerprint())
        if before is not None:
            raise _AnsweredBefore(before)
        self._transaction = tx

    async def _fingerprint(self) -> bytes:
        url = self._request.url
        return fingerprint(
            self._request.method.encode(),
            url.path.encode(),
            url.query.encode(),
            await self._request.body(),
        )


def _as_answer(response: Response) -> Answer:
    return Answer(response.status_code, response.headers.get("content-type"), bytes(response.body).decode())


def _again(answer: Answer) -> Response:
    headers = {"Idempotency-Replayed": "true"}
    if answer.content_type:
        headers["Content-Type"] = answer.content_type
    return Response(answer.body, answer.status, headers=headers)


async def documented(
    idempotency_key: str | None = Header(
        None,
        alias="Idempotency-Key",
        max_length=255,
        pattern=PATTERN,
        description="Send the same key again to repeat a request without repeating its effect.",
    ),
) -> None:
    """Puts the header into the API's description; RecollectRoute does the work."""
    del idempotency_key
