"""Digests by which a turn is known when it comes again.

They are keyed: nobody can try out which secret a turn had before it was masked.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from uuid import UUID

from recollect.kit.secret import ServerSecret, fingerprint
from recollect.rules.chats.models import Chat
from recollect.rules.chats.sameness import places

SIZE = 16


class Digests:
    def __init__(self, secret: ServerSecret) -> None:
        self._key = secret.key_for("chat turns")

    def of(self, chat: Chat, workspace: UUID | None) -> Iterator[bytes]:
        """The digest of each turn."""
        whose = workspace.bytes if workspace else b""
        for turn, place in zip(chat.turns, places(chat), strict=True):
            yield self._digest(whose, turn.role.encode(), turn.text.encode(), *place)

    def session(self, chat: Chat) -> str:
        """A few letters that tell one session from another without saying what it is called."""
        return self._digest(b"session", chat.session.encode()).hex()[:8]

    def _digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self._key, fingerprint(*parts), "sha256")[:SIZE]
