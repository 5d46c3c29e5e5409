"""What looking at one place of a text comes to, and where a secret may begin."""

from __future__ import annotations

import re
import string
from typing import NamedTuple

# The letter in \n, the digits in %3D or \u0022 and the m of a terminal's colour are no part of what follows.
_ESCAPES = (
    rb"\\[nrt]",
    rb"%[0-9A-Fa-f]{2}",
    rb"\\u[0-9a-fA-F]{4}",
    rb"\\x[0-9a-fA-F]{2}",
    rb"[\[;][0-9]m",
    rb"[\[;][0-9]{2}m",
    rb"[\[;][0-9]{3}m",
)
ESCAPE = re.compile(b"|".join((*_ESCAPES, b"_")))
# Looks back, for what would often be part of a longer word.
BORDER = rb"(?:(?<![A-Za-z0-9])|%s)" % b"|".join(b"(?<=%s)" % escape for escape in _ESCAPES)
# RE2 cannot look back. Without it, a pattern that begins with any letter or digit would begin everywhere.
WORD_START = rb"(?:%s|\b)" % ESCAPE.pattern
_WORD = (string.ascii_letters + string.digits + "_-").encode()
_LONG_WORD = 16
_REST_OF_WORD = re.compile(rb"\w*")


MASK = b"[secret: "
# How far back a pattern looks for what must stand before a secret.
_LOOK_BACK = 200


class Finding(NamedTuple):
    """A secret, from ``start`` to ``end``."""

    start: int
    end: int
    kind: str


class Skip(NamedTuple):
    """It has the form of a secret and is none, as far as ``end``."""

    end: int


class Text:
    """The text, and what stands before a place of it as it will be stored: so a second look sees the same."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.done = 0
        self._stored = b""

    def before(self, start: int) -> bytes:
        begin = start - _LOOK_BACK
        if begin >= self.done:
            return self.data[begin:start]
        return (self._stored + self.data[self.done : start])[-_LOOK_BACK:]

    def mask(self, found: Finding) -> bytes:
        """What is stored instead; all up to its end is done."""
        mask = MASK + found.kind.encode() + b"]"
        self._stored = self.before(found.start) + mask
        self.done = found.end
        return mask


def finding(data: bytes, start: int, end: int, kind: str) -> Finding:
    """What sticks to a secret is part of it: so a second look sees the same borders of words as the first.

    Before it, only what is long enough to be a secret itself if its word ended here.
    """
    before = data[max(0, start - _LOOK_BACK) : start]
    if before[-1:].isalnum() and (stuck := len(before) - len(before.rstrip(_WORD))) >= _LONG_WORD:
        start -= stuck
    rest = _REST_OF_WORD.match(data, end)
    return Finding(start, rest.end() if rest else end, kind)
