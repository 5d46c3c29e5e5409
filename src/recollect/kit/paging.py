"""Cursors: where the next page of one particular list begins, signed so that none can be made up."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Sequence
from typing import Any

from recollect.errors import InvalidInput
from recollect.kit.secret import ServerSecret

SIGNATURE_BYTES = 12


class InvalidCursor(InvalidInput):
    """That cursor does not belong to this list; start again without one."""

    code = "invalid_cursor"


class Cursors:
    def __init__(self, secret: ServerSecret) -> None:
        self._secret = secret

    def after(self, listing: Sequence[str], position: Sequence[Any]) -> str:
        """A cursor for what follows ``position`` in the list that ``listing`` names."""
        body = json.dumps(list(position), ensure_ascii=False, separators=(",", ":")).encode()
        signed = self._signature(listing, body) + body
        return base64.urlsafe_b64encode(signed).decode().rstrip("=")

    def position(self, listing: Sequence[str], cursor: str | None) -> list[Any] | None:
        if cursor is None:
            return None
        try:
            signed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidCursor from error
        signature, body = signed[:SIGNATURE_BYTES], signed[SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(listing, body)):
            raise InvalidCursor
        position: list[Any] = json.loads(body)
        return position

    def _signature(self, listing: Sequence[str], body: bytes) -> bytes:
        return self._secret.sign(json.dumps(list(listing)).encode() + b"\n" + body)
