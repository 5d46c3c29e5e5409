"""Words of users, cut to size and compared."""

from __future__ import annotations

from recollect.engine.language import words_of
from recollect.kit.text import one_line

# Of all words that two texts use, so many are in both.
ALIKE = 0.8


def shortened(text: str, most: int) -> str:
    """In one line, cut at a word."""
    text = one_line(text[: most * 4])
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    return f"{cut.rpartition(' ')[0].rstrip(' ,;:-') or cut}…"


def essence(text: str) -> frozenset[str]:
    """What is left of a text when case, accents, punctuation and order make no difference."""
    return frozenset(words_of(text)) or frozenset({text})


def is_alike(one: frozenset[str], other: frozenset[str], share: float = ALIKE) -> bool:
    return len(one & other) >= share * len(one | other)
