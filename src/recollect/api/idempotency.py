"""Idempotency-Key: a POST sent twice happens once, and is answered the same.

The key is claimed, and the answer kept, in the transaction of the change itself: there is no moment at
which one stands without the other. A second request with the same key waits for the first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Header, Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from recollect.access.store import queries
from recollect.api.callers import services
from recollect.db.tenancy import Transaction
from recollect.errors import InvalidInput
from recollect.kit.secret import ServerSecret, fingerprint

_CONTEXT = b"idempotent response"


class ReusedKey(InvalidInput):
    """That Idempotency-Key was used for another request; make a new one for each."""

    code = "idempotency_key_reused"


class _AnsweredBefore(Exception):
    def __init__(self, response: Response) -> None:
        self.response = response


class IdempotentRoute(APIRoute):
    """Honours Idempotency-Key on POST."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if "POST" not in (self.methods or ()):
            return handle

        async def once(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            if key is None:
                return await handle(request)
            return await _Once(request, key).answer(handle)

        return once


class _Once:
    def __init__(self, request: Request, key: str) -> None:
        self._request = request
        self._key = key
        self._secret: ServerSecret = services(request).secret
        self._transaction: Transaction | None = None

    async def answer(self, handle: Callable[[Request], Coroutine[Any, Any, Response]]) -> Response:
        self._request.state.begin = self._claim
        try:
            response = await handle(self._request)
        except _AnsweredBefore as before:
            return before.response
        if self._transaction is not None and response.status_code < 400:
            await self._keep(self._transaction, response)
        return response

    async def _claim(self, tx: Transaction) -> None:
        if not 1 <= len(self._key) <= 255 or not self._key.isprintable():
            raise InvalidInput("Idempotency-Key: 1 to 255 printable characters.")
        print_of_request = await self._fingerprint()
        tx.hold()
        claimed = await tx.maybe(
            queries.claim_idempotency_key, {"key": self._key, "fingerprint": print_of_request}
        )
        if claimed is not None:
            self._transaction = tx
            return
        before = await tx.one(queries.find_idempotent_response, {"key": self._key})
        if before["fingerprint"] != print_of_request:
            raise ReusedKey
        raise _AnsweredBefore(self._restored(before))

    async def _keep(self, tx: Transaction, response: Response) -> None:
        kept = {"body": bytes(response.body).decode(), "type": response.headers.get("content-type")}
        sealed = self._secret.seal(json.dumps(kept).encode(), _CONTEXT)
        await tx.run(
            queries.keep_idempotent_response,
            {"key": self._key, "status": response.status_code, "sealed": sealed},
        )

    def _restored(self, before: dict[str, Any]) -> Response:
        kept = json.loads(self._secret.unseal(before["sealed_response"], _CONTEXT))
        headers = {"Idempotency-Replayed": "true"}
        if kept["type"]:
            headers["Content-Type"] = kept["type"]
        return Response(kept["body"], before["status"], headers=headers)

    async def _fingerprint(self) -> bytes:
        url = self._request.url
        return fingerprint(
            self._request.method.encode(),
            url.path.encode(),
            url.query.encode(),
            await self._request.body(),
        )


async def documented(
    idempotency_key: str | None = Header(
        None,
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x20-\x7e]+$",
        description="Send the same key again to repeat a request without repeating its effect.",
    ),
) -> None:
    """Puts the header into the API's description; IdempotentRoute does the work."""
    del idempotency_key
