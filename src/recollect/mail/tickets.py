"""What an unsubscribe link carries: whose it is and for which kind, signed so that none can be made up.

It does not expire: an old e-mail's link must still work.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass, replace
from uuid import UUID

from recollect.errors import InvalidInput
from recollect.kit.secret import ServerSecret
from recollect.mail.models import EVERY_KIND

SIGNATURE_BYTES = 12
_PURPOSE = b"unsubscribe\n"


class UnknownTicket(InvalidInput):
    """That link is not whole; open it from the e-mail again, or change it in the dashboard under Mail."""

    code = "unknown_ticket"


@dataclass(frozen=True)
class Ticket:
    user_id: UUID
    kind: str

    @property
    def is_for_all(self) -> bool:
        return self.kind == EVERY_KIND

    def for_all(self) -> Ticket:
        return replace(self, kind=EVERY_KIND)


class Tickets:
    def __init__(self, secret: ServerSecret) -> None:
        self._secret = secret

    def issue(self, user_id: UUID, kind: str) -> str:
        message = user_id.bytes + kind.encode()
        signed = self._secret.sign(_PURPOSE + message) + message
        return base64.urlsafe_b64encode(signed).decode().rstrip("=")

    def read(self, token: str) -> Ticket:
        try:
            signed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise UnknownTicket from error
        signature, message = signed[:SIGNATURE_BYTES], signed[SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._secret.sign(_PURPOSE + message)):
            raise UnknownTicket
        return Ticket(UUID(bytes=message[:16]), message[16:].decode())
