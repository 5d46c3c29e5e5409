"""What makes a turn the same as another: resumed sessions repeat those of the first, as further exports do.

The same words at the same time are the same turn, whichever session they stand in. Where no time is known,
they are the same after the same conversation; the first words of one are its session's own, since people
often begin alike. SpecStory tells the time of its export, which differs by minutes from one to the next, but
names the session: there, the same words are told apart by how often they were said before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from recollect.kit.secret import fingerprint
from recollect.rules.chats import specstory
from recollect.rules.chats.models import Chat


def places(chat: Chat) -> Iterator[tuple[bytes, ...]]:
    """Where each turn of a chat was said: the same words in the same place are the same turn."""
    before = b""
    times = Counter[tuple[str, str]]()
    for turn in chat.turns:
        said = turn.role, turn.text
        if turn.at is not None and chat.format == specstory.FORMAT:
            yield b"of", chat.session.encode(), str(times[said]).encode()
        elif turn.at is not None:
            yield b"at", str(turn.at.timestamp()).encode()
        elif before:
            yield b"after", before
        else:
            yield b"in", f"{turn.number} {chat.format} {chat.session}".encode()
        times[said] += 1
        before = fingerprint(before, turn.role.encode(), turn.text.encode())
