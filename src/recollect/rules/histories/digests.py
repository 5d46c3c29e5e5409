"""What makes a turn the same as another: a resumed session repeats those of the first.

The same words at the same time are the same turn, whichever session they stand in. Where no time is known,
they are the same after the same conversation; the first words of one are its session's own, since people
often begin alike. Digests are keyed: nobody can try out which secret a turn had before it was masked.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from uuid import UUID

from recollect.kit.secret import ServerSecret, fingerprint
from recollect.rules.chats.models import Chat

SIZE = 16


class Digests:
    def __init__(self, secret: ServerSecret) -> None:
        self._key = secret.key_for("chat turns")

    def of(self, chat: Chat, workspace: UUID | None) -> Iterator[bytes]:
        """The digest of each turn."""
        place = workspace.bytes if workspace else b""
        before = b""
        for turn in chat.turns:
            said = turn.role.encode(), turn.text.encode()
            if turn.at is not None:
                where = b"at", str(turn.at.timestamp()).encode()
            elif before:
                where = b"after", before
            else:
                where = b"in", f"{turn.number} {chat.format} {chat.session}".encode()
            yield self._digest(place, *said, *where)
            before = fingerprint(before, *said)

    def session(self, chat: Chat) -> str:
        """A few letters that tell one session from another without saying what it is called."""
        return self._digest(b"session", chat.session.encode()).hex()[:8]

    def _digest(self, *parts: bytes) -> bytes:
        return hmac.digest(self._key, fingerprint(*parts), "sha256")[:SIZE]
