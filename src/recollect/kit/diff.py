"""What changed from one text to another, word by word."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

# The time that comparing takes grows with the square of this; a page may show fifty comparisons.
MAX_WORDS = 1_000

# A word has the blanks after it; the end of a line, with the indent of the next, is a word of its own.
_WORDS = re.compile(r"\n\s*|[^\S\n]+|\S+[^\S\n]*")


class Part(NamedTuple):
    kind: Literal["same", "gone", "new"]
    text: str


def differences(before: str, after: str) -> list[Part]:
    """The parts that stayed, went and came, in reading order; of very long texts, all went and all came."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > MAX_WORDS and before != after:
        return [Part("gone", before), Part("new", after)]
    found: list[Part] = []
    for kind, i, j, m, n in SequenceMatcher(None, old, new).get_opcodes():
        if kind == "equal":
            found.append(Part("same", "".join(old[i:j])))
            continue
        if j > i:
            found.append(Part("gone", "".join(old[i:j])))
        if n > m:
            found.append(Part("new", "".join(new[m:n])))
    return found
