"""The question that a fact answers, where it has one answer at a time: home, favourite:film, likes:tea.

It is the same in every language, so that "Ahora vivo en Madrid" takes the place of "I live in Rome", and the
same for a statement and its opposite.
"""

from __future__ import annotations

import re

from recollect.engine.extraction.sentences import Piece
from recollect.engine.extraction.tongue import Tongue
from recollect.engine.language import stem

MAX_THING_WORDS = 5
MAX_NAME_WORDS = 3

_WORD = re.compile(r"[\w\ufffc]+")
_INTRODUCTION = "introduction"


def slot_of(statement: Piece, tongue: Tongue, *, is_introduced: bool = False) -> str | None:
    """``is_introduced``: after a greeting, "I'm Ana" tells a name."""
    plain = statement.plain
    if tongue.past.search(plain):
        return None
    for name, pattern in tongue.slots:
        found = pattern.match(plain)
        if found is None or (name == _INTRODUCTION and not is_introduced):
            continue
        groups = found.groupdict()
        if groups.get("place") is not None and not _is_name(statement, found, tongue):
            continue
        if name == _INTRODUCTION:
            if _is_introduction(statement.written(*found.span("place"))):
                return "name"
            continue
        if groups.get("thing") is None:
            return name
        thing = _thing(found["thing"], tongue, is_kind=name == "favourite")
        if thing:
            return f"{name}:{thing}"
    return None


def _is_introduction(written: str) -> bool:
    """ "Ana", "Ana from Spain", but not "really inspired"."""
    words = _WORD.findall(written)
    return 0 < len(words) <= MAX_NAME_WORDS and words[0][0].isupper()


def _is_name(statement: Piece, found: re.Match[str], tongue: Tongue) -> bool:
    """Whether it is written as a name, or by somebody who writes everything small."""
    written = _WORD.findall(statement.written(*found.span("place")))
    plain = _WORD.findall(found["place"])
    if not written or not plain:
        return False
    if written[0][0].isupper():
        return plain[0] not in tongue.no_place
    if plain[0] in tongue.no_place:
        # "the Netherlands", "la Haya"
        return len(plain[0]) <= 3 and len(written) > 1 and written[1][0].isupper()
    begin = found.start("place")
    return not any(letter.isupper() for letter in statement.written(0, begin)[2:])


def _thing(plain: str, tongue: Tongue, *, is_kind: bool) -> str:
    plain = plain.strip()
    stop = tongue.stops.search(plain, 1)
    words = [
        word for word in _WORD.findall(plain[: stop.start()] if stop else plain) if word not in tongue.dropped
    ]
    if len(words) > MAX_THING_WORDS:
        return ""
    if is_kind and " ".join(words) in tongue.things:
        return tongue.things[" ".join(words)]
    return " ".join(stem(word, tongue.name) for word in words)
