"""Answers kept under a caller's idempotency key, so that a request sent twice happens once.

The key is claimed, and the answer kept, in the transaction of the change itself: there is no moment at
which one stands without the other. A second request with the same key waits for the first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from recollect.access.store import queries
from recollect.db.tenancy import Transaction
from recollect.errors import InvalidInput
from recollect.kit.secret import ServerSecret

_CONTEXT = b"idempotent response"


class ReusedKey(InvalidInput):
    """That Idempotency-Key was used for another request; make a new one for each."""

    code = "idempotency_key_reused"


@dataclass(frozen=True)
class Answer:
    status: int
    content_type: str | None
    body: str


class Answers:
    def __init__(self, secret: ServerSecret) -> None:
        self._secret = secret

    async def claim(self, tx: Transaction, key: str, request: bytes) -> Answer | None:
        """The answer to this request if it was made before; else the key is ours until the end of the
        transaction, which is then held open for ``keep``. ``request`` is the request's fingerprint."""
        tx.hold()
        if await tx.maybe(queries.claim_idempotency_key, {"key": key, "fingerprint": request}):
            return None
        before = await tx.one(queries.find_idempotent_response, {"key": key})
        if before["fingerprint"] != request:
            raise ReusedKey
        kept = json.loads(self._secret.unseal(before["sealed_response"], _CONTEXT))
        return Answer(before["status"], kept["type"], kept["body"])

    async def keep(self, tx: Transaction, key: str, answer: Answer) -> None:
        # Sealed, because an answer may hold what is shown only once, such as an API key.
        kept = json.dumps({"type": answer.content_type, "body": answer.body}).encode()
        await tx.run(
            queries.keep_idempotent_response,
            {"key": key, "status": answer.status, "sealed": self._secret.seal(kept, _CONTEXT)},
        )
