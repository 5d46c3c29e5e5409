"""What looking at one place of a text comes to."""

from __future__ import annotations

import re
from typing import NamedTuple

# In JSON a line ends with the two characters \n, and the letter is no part of what follows.
BORDER = rb"(?:\\[nrt]|\b)"
_REST_OF_WORD = re.compile(rb"\w*")


class Finding(NamedTuple):
    """A secret, from ``start`` to ``end``."""

    start: int
    end: int
    kind: str


class Skip(NamedTuple):
    """It has the form of a secret and is none, as far as ``end``."""

    end: int


def finding(data: bytes, start: int, end: int, kind: str) -> Finding:
    """What sticks to a secret is part of it: so a second look sees the same borders of words as the first."""
    rest = _REST_OF_WORD.match(data, end)
    return Finding(start, rest.end() if rest else end, kind)
