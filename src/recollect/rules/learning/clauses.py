"""A turn, cut into clauses that know where they stand, so that every quote is exact."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from recollect.engine.language import fold

# A turn that says more than this is a document; its rules repeat themselves by then.
MAX_CLAUSES = 60
LONGEST_CLAUSE = 400

APOSTROPHES = str.maketrans(
    dict.fromkeys("\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}\N{ACUTE ACCENT}", "'")
)
_END = re.compile(
    r"(?<![.\s][A-Za-z])[.!?…]+[\"'”’»)\]]*(?=\s|$)|[.!?]+(?=[\u3040-\u9fff])"  # noqa: RUF001
    r"|[。！？；]+|;(?=\s)|\n+|\s{3,}"  # noqa: RUF001
)
_BULLET = re.compile(r"\s*(?:[-*+•–—]+|\(?\d{1,3}[.)]|#{1,6}|\[[ x]\])\s+")  # noqa: RUF001
_EDGE = " \t\r\n,:;-–—*_\"'`"  # noqa: RUF001
_COMMAS = ",\N{FULLWIDTH COMMA}\N{IDEOGRAPHIC COMMA}"
_WORDY = re.compile(r"[^\W\d_]")


@dataclass(frozen=True, slots=True)
class Clause:
    """A sentence or a line: what it says, where it stands in the turn, and how it ended."""

    text: str
    start: int
    end: int
    asked: bool
    plain: str
    """In lower case and without accents, for patterns."""


def clauses_in(text: str, shown: str) -> list[Clause]:
    """The clauses of what is shown of a text."""
    found: list[Clause] = []
    for begin, end in _sentences(shown):
        if clause := _clause(text, shown, begin, end):
            found.append(clause)
            if len(found) == MAX_CLAUSES:
                break
    return found


def _sentences(shown: str) -> Iterator[tuple[int, int]]:
    begin = 0
    for end in _END.finditer(shown):
        yield from _short_enough(shown, begin, end.end())
        begin = end.end()
    yield from _short_enough(shown, begin, len(shown))


def _short_enough(shown: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence in one piece, or cut at commas if it goes on and on."""
    while end - begin > LONGEST_CLAUSE:
        comma = max(shown.rfind(each, begin + 1, begin + LONGEST_CLAUSE) for each in _COMMAS)
        cut = comma + 1 if comma > 0 else begin + LONGEST_CLAUSE
        yield begin, cut
        begin = cut
    yield begin, end


def _clause(text: str, shown: str, begin: int, end: int) -> Clause | None:
    whole = shown[begin:end]
    if not _WORDY.search(whole):
        return None
    if bullet := _BULLET.match(whole):
        begin += bullet.end()
        whole = shown[begin:end]
    asked = whole.rstrip().endswith(("?", "？"))  # noqa: RUF001
    begin += len(whole) - len(whole.lstrip(_EDGE))
    end = min(begin + len(shown[begin:end].rstrip(_EDGE)), begin + LONGEST_CLAUSE)
    said = text[begin:end]
    return Clause(said, begin, end, asked, plain_of(said)) if said else None


def plain_of(text: str) -> str:
    return " ".join(fold(text.translate(APOSTROPHES)).split())
