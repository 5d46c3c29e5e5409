"""mem0: does the sender know our secret, and which memory changed."""

from __future__ import annotations

import hmac

from recollect.errors import NotSignedIn
from recollect.events.inbound.models import Mem0Event, read
from recollect.kit.text import strict_json

# By mem0's verb. New categories are a change like any other to whoever keeps a copy.
CHANGES = {
    "add": "memory.added",
    "update": "memory.updated",
    "categorize": "memory.updated",
    "delete": "memory.deleted",
}


class WrongSecret(NotSignedIn):
    """Send MEM0_WEBHOOK_SECRET as "Authorization: Bearer ...", or as "X-Webhook-Secret: ..."."""

    code = "wrong_secret"


def check_secret(presented: bytes | None, secret: str) -> None:
    if not hmac.compare_digest(presented or b"", secret.encode()):
        raise WrongSecret


def event_in(body: bytes) -> Mem0Event:
    sent = strict_json(body)
    if isinstance(sent, dict):
        # mem0 wraps what it says; whoever relays it may have unwrapped it.
        if isinstance(details := sent.pop("event_details", None), dict):
            sent |= details
        if sent.get("user_id") is None and isinstance(data := sent.get("data"), dict):
            sent["user_id"] = data.get("user_id")
    return read(Mem0Event, sent)
