"""What makes a turn the same as another: resumed sessions repeat those of the first, as further exports do.

The same words at the same time are the same turn, whichever session they stand in. Where no time is known,
they are the same after the same conversation; the first words of one are its session's own, since people
often begin alike, and an application's are all its session's own. If a session goes by the name of a file, of
which there may be copies, the first words are told by what follows. SpecStory tells the time of its export,
and Codex that of a fork, which differ from one to the next, but both name the session: there, the same words
are told apart by how often they were said before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest

from recollect.kit.secret import fingerprint
from recollect.rules.chats import codex, cursor, cursor_markdown, messages, specstory
from recollect.rules.chats.models import Chat, Turn

_NAMED_BY_FILE = frozenset({messages.FORMAT, cursor_markdown.FORMAT, specstory.FORMAT})
_TOLD_ANEW = frozenset({specstory.FORMAT, codex.FORMAT})


def places(chat: Chat) -> Iterator[tuple[bytes, ...]]:
    """Where each turn of a chat was said: the same words in the same place are the same turn."""
    session = (chat.forked_from or chat.session).encode()
    # A later part counts anew.
    part = f"{chat.turns[0].number} " if chat.turns and chat.turns[0].number else ""
    before = fingerprint(session, part.encode()) if chat.format == messages.APPLICATION else b""
    times = Counter[tuple[str, str]]()
    for turn, following in zip_longest(chat.turns, chat.turns[1:]):
        said = turn.role, turn.text
        if turn.at is not None and chat.format in _TOLD_ANEW:
            yield b"of", session, f"{part}{times[said]}".encode()
        elif turn.at is not None and not _is_lent(chat, turn, following):
            yield b"at", str(turn.at.timestamp()).encode()
        elif before:
            yield b"after", before
        elif following is not None and chat.format in _NAMED_BY_FILE:
            yield b"before", fingerprint(following.role.encode(), following.text.encode())
        else:
            yield b"in", f"{turn.number} {chat.format} {chat.session}".encode()
        times[said] += 1
        before = fingerprint(before, turn.role.encode(), turn.text.encode())


def _is_lent(chat: Chat, turn: Turn, following: Turn | None) -> bool:
    """Whether the time is that of the answer, which may not have been there when the question came in."""
    return chat.format == cursor.FORMAT and following is not None and turn.at == following.at
