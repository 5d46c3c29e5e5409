"""How turns are put together into chats: numbered, shortened, and in parts when there are very many."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from sys import getsizeof

from recollect.kit.secret import fingerprint
from recollect.rules.chats.models import Chat, Kind, Role, Turn
from recollect.rules.chats.own_words import LONGEST_USER_TEXT, own_words
from recollect.rules.masking import mask

ASSISTANT_END = 1_000
LONGEST_DOING = 500
LONGEST_TARGET = 100
# Half a secret is not known for one: whatever is cut is masked first, with so much of what is cut off.
MARGIN = 8 * 1024
# Bytes of one part of a chat, each turn counting for its object too: what is in memory stays small.
PART_SIZE = 16 * 1024 * 1024
TURN_OVERHEAD = 500

CUT = "\n[… cut here: the text was longer than 64 KB]"
LEFT_OUT = "\n[…]\n"

_FIRST_WORD = re.compile(r"\S{1,500}")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_TARGETS = (
    "file_path",
    "path",
    "notebook_path",
    "target_file",
    "command",
    "cmd",
    "pattern",
    "query",
    "url",
    "skill",
)


def storable(text: str) -> str:
    """The text without what no database takes: NUL characters and halves of characters."""
    return _UNSTORABLE.sub("", text)


def _named(name: str | None) -> str | None:
    return storable(beginning(name, 500)) if name else None


def _mark(text: str) -> str:
    """A few letters that tell a text from others, and no secret by which somebody could try it out."""
    return fingerprint(mask(text).text.encode()).hex()[:8]


def shortened(text: str) -> str:
    """An assistant's text: its beginning and its end are enough to know what it was about."""
    if len(text) <= 2 * ASSISTANT_END:
        return text
    # The first word of what is looked at may be the rest of a secret; masks bring it nearer to the end.
    looked_at = text[-ASSISTANT_END - MARGIN :]
    first_word = _FIRST_WORD.match(looked_at)
    end = mask(looked_at[first_word.end() if first_word else 0 :]).text[-ASSISTANT_END:]
    return beginning(text, ASSISTANT_END) + LEFT_OUT + end


def beginning(text: str, size: int) -> str:
    """So much of a text, and no half of a secret."""
    return text if len(text) <= size else mask(text[: size + MARGIN]).text[:size]


def named_action(tool: object, given: object = None) -> str:
    """A tool call in a few words: its name, and the file, command or address it was about."""
    name = tool if isinstance(tool, str) and tool else "tool"
    arguments = given if isinstance(given, dict) else {}
    for key in _TARGETS:
        target = arguments.get(key)
        if isinstance(target, list):
            target = " ".join(part for part in target if isinstance(part, str))
        if isinstance(target, str) and target.strip():
            return f"{name} {beginning(target.strip().splitlines()[0], LONGEST_TARGET)}"
    return name


def moment(value: object) -> datetime | None:
    """A time as transcripts write it: ISO 8601 (UTC if no zone is named), or (milli)seconds since 1970."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value.strip())
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


class Gathered:
    """Lines of one turn. Of a very long one the beginning and the end are held, which is all that is kept."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0

    def add(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1
        if self._size > 16 * LONGEST_USER_TEXT:
            text = "\n".join(self._lines)
            self._lines = [text[: 4 * LONGEST_USER_TEXT], text[-2 * ASSISTANT_END - MARGIN :]]
            self._size = sum(map(len, self._lines))

    def __bool__(self) -> bool:
        return bool(self._lines)

    def take(self) -> str:
        """The text so far; what comes next is another turn's."""
        text = "\n".join(self._lines)
        self._lines, self._size = [], 0
        return text


@dataclass(slots=True)
class Transcript:
    """A chat being read: turns go in, chats come out."""

    source: str
    format: str
    session: str = ""
    project: str | None = None
    author: str | None = None
    title: str | None = None
    started_at: datetime | None = None
    forked_from: str = ""
    is_named: bool = True
    """Whether the session has a name of its own. If it goes by that of its file, its first words are added:
    there are many a ``chat.json``."""
    _turns: list[Turn] = field(default_factory=list)
    _doing: list[str] = field(default_factory=list)
    _next: int = 0
    _size: int = 0
    _opening: str = ""

    @property
    def count(self) -> int:
        """How many turns there were so far, in earlier parts too."""
        return self._next

    @property
    def answered(self) -> bool:
        """Whether the assistant has said anything yet."""
        return any(turn.role == "assistant" for turn in self._turns)

    def did(self, action: str) -> None:
        """Note what the assistant does; the next user's turn is told."""
        self._doing.append(action)
        # More than this can never be shown.
        if len(self._doing) > LONGEST_DOING:
            del self._doing[:-100]

    def say(self, role: Role, text: str, at: datetime | None = None, kind: Kind = "said") -> None:
        """Add a turn, unless nothing was said in it."""
        text = storable(own_words(text) if role == "user" else text.strip())
        if not text:
            return
        doing = ""
        if role == "user":
            doing = mask(storable("; ".join(self._doing))).text[-LONGEST_DOING:]
            self._doing.clear()
            text = text if len(text) <= LONGEST_USER_TEXT else beginning(text, LONGEST_USER_TEXT) + CUT
        else:
            text = shortened(text)
        self._opening = self._opening or text
        self._turns.append(Turn(role, text, at, self._next, doing, kind))
        self._next += 1
        # One character beyond the usual ones makes all of a text take four times as much.
        self._size += getsizeof(text) + getsizeof(doing) + TURN_OVERHEAD
        self.started_at = self.started_at or at

    def pass_over(self, text: str) -> None:
        """Count a turn that stands in another chat already."""
        if text.strip():
            self._next += 1

    def go_back_to(self, number: int) -> None:
        """Forget the turns from this number on: the user went back and said something else."""
        if self._turns and number >= self._turns[0].number:
            self._turns = [turn for turn in self._turns if turn.number < number]
            self._next = number

    def take_back(self, user_turns: int) -> None:
        """Forget the last turns of the user, and what followed each."""
        numbers = [turn.number for turn in self._turns if turn.role == "user"]
        if user_turns > 0 and numbers:
            self.go_back_to(numbers[-min(user_turns, len(numbers))])

    def said_lately(self, role: Role, text: str) -> bool:
        """Whether one of the last few turns has this very text."""
        text = own_words(text) if role == "user" else shortened(text.strip())
        return any(turn.role == role and turn.text == text for turn in self._turns[-8:])

    def full_part(self) -> Iterator[Chat]:
        """The turns so far as a chat, once there are so many that they should not be held any longer."""
        if self._size >= PART_SIZE:
            yield from self.rest()

    def rest(self) -> Iterator[Chat]:
        """What has not come out yet, if a human said anything in it."""
        if any(turn.role == "user" for turn in self._turns):
            yield Chat(
                self.source,
                self.format,
                self._session(),
                _named(self.project),
                _named(self.author),
                _named(self.title),
                self.started_at,
                tuple(self._turns),
                self.forked_from,
            )
        self._turns = []
        self._size = 0

    def _session(self) -> str:
        name = _named(self.session) or ""
        return name if self.is_named else f"{name} {_mark(self._opening)}"
