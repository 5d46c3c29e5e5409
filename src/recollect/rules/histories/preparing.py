"""Turns made ready to be stored: secrets masked, the language told, nothing longer than it may be."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeVar

from recollect.rules.chats.models import Chat, Turn
from recollect.rules.chats.transcript import storable
from recollect.rules.learning.cues import language_told
from recollect.rules.masking import mask

# Masking may make a text longer: these are what the columns hold.
MAX_TEXT = 70_000
MAX_DOING = 1_000
MAX_PLACE = 4_096
MAX_TITLE = 1_024
MAX_SESSION = 500
MAX_AUTHOR = 512
# So much of a text tells its language.
TELLING = 500

_MASKED = re.compile(r"\[secret: ([A-Za-z0-9 ]{2,40})\]")
T = TypeVar("T", str, str | None)


@dataclass(frozen=True, slots=True)
class Ready:
    """A turn as it is stored."""

    turn: Turn
    digest: bytes
    language: str | None
    masked: tuple[str, ...]


def ready(turn: Turn, digest: bytes) -> Ready:
    text = mask(turn.text).text[:MAX_TEXT]
    doing = mask(turn.doing).text[:MAX_DOING] if turn.doing else ""
    language = language_told(text[:TELLING]) if turn.role == "user" else None
    # What was masked when the text was cut counts too.
    kinds = tuple(_MASKED.findall(f"{text}\n{doing}"))
    return Ready(replace(turn, text=text, doing=doing), digest, language, kinds)


def without_secrets(chat: Chat, session_mark: str) -> Chat:
    """The chat's own fields, masked."""
    session = _within(chat.session or chat.source, MAX_SESSION)
    if session != chat.session:
        # Two sessions stay two, whatever their names had in common.
        session = f"{session} {session_mark}"
    return replace(
        chat,
        source=_within(chat.source, MAX_PLACE),
        session=session,
        project=_within(chat.project, MAX_PLACE),
        author=_within(chat.author, MAX_AUTHOR),
        title=_within(chat.title, MAX_TITLE),
        turns=(),
    )


def _within(text: T, size: int) -> T:
    return mask(storable(text)).text[:size] if text else text
