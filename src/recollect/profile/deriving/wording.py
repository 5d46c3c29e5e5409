"""Words of users, cut to size and compared."""

from __future__ import annotations

from collections.abc import Container

from recollect.engine.language import uncommon, words_of
from recollect.kit.text import one_line

# Of all words that two texts use, so many are in both.
ALIKE = 0.8
# Articles, prepositions and the like are no longer.
SMALL = 3


def shortened(text: str, most: int) -> str:
    """In one line, cut at a word."""
    text = one_line(text[: most * 4])
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    return f"{cut.rpartition(' ')[0].rstrip(' ,;:-') or cut}…"


def essence(text: str, weighty: Container[str] = ()) -> frozenset[str]:
    """What is left of a text when case, accents, punctuation, order and articles make no difference.

    ``weighty``: words that make one, however small.
    """
    words = words_of(text)
    telling = {*uncommon(words), *(word for word in words if len(word) > SMALL or word in weighty)}
    return frozenset(telling or words or {text})


def is_alike(one: frozenset[str], other: frozenset[str], share: float = ALIKE) -> bool:
    return len(one & other) >= share * len(one | other)
