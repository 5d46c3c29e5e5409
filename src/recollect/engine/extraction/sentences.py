"""A turn, cut into sentences. Code is left out; what is quoted is hidden from whoever reads on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

# Stands for a quoted character: no letter, no punctuation, no space.
HIDDEN = "\N{OBJECT REPLACEMENT CHARACTER}"
_LONGEST_QUOTE = 1_000
_SHORT_LINE = 50

_FENCE = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_LINE_OF_A_QUOTE = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_QUOTES = re.compile(
    "|".join(
        f"{opening}[^{closing}\\n]{{1,{_LONGEST_QUOTE}}}{closing}"
        for opening, closing in ('""', "``", "“”", "„“", "„”", "«»", "»«", "‹›", "「」", "『』")  # noqa: RUF001
    )
)
_APOSTROPHES = str.maketrans(
    dict.fromkeys("\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}\N{ACUTE ACCENT}`", "'")
)
_BULLET = re.compile(r"\s*(?:[-*+•–—]+|\(?\d{1,3}[.)])\s+")  # noqa: RUF001
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s|$)|[。！？]+|\n")  # noqa: RUF001
# After these a dot ends no sentence.
_ABBREVIATION = re.compile(
    r"(?:\b(?:dr|mr|mrs|ms|prof|st|sr|sra|srta|jr|vs|approx|ca|nr|bzw|inkl|ing|mme|mlle|sig|dott|dra|mw|dhr|e\.g|"
    r"i\.e|z\.b|d\.h|u\.a|p\.ej|p\.ex|bijv|b\.v)|\b[a-hj-z]|\b(?:am|den|der|dem|vom|zum|bis) \d{1,2})\.$",
    re.IGNORECASE,
)
_LINE_GOES_ON = re.compile(r"[ \t]*[^\W\d_]")


@dataclass(frozen=True)
class Piece:
    """A part of a turn: as it was written, and with quotes hidden, character by character."""

    text: str
    shown: str

    def __getitem__(self, part: slice) -> Piece:
        return Piece(self.text[part], self.shown[part])

    def trimmed(self) -> Piece:
        begin = len(self.shown) - len(self.shown.lstrip())
        return self[begin : len(self.shown.rstrip())]

    @cached_property
    def _folded(self) -> tuple[str, Sequence[int]]:
        if self.shown.isascii():
            return self.shown.translate(_APOSTROPHES).lower(), range(len(self.shown))
        letters: list[str] = []
        places: list[int] = []
        for place, letter in enumerate(self.shown.translate(_APOSTROPHES)):
            for part in unicodedata.normalize("NFKD", letter.casefold()):
                if not unicodedata.combining(part):
                    letters.append(part)
                    places.append(place)
        return "".join(letters), places

    @property
    def plain(self) -> str:
        """In lower case and without accents, for patterns."""
        return self._folded[0]

    def after(self, position: int) -> Piece:
        """From a position in ``plain`` on."""
        places = self._folded[1]
        return self[places[position] :] if position < len(places) else self[len(self.text) :]

    def before(self, position: int) -> Piece:
        places = self._folded[1]
        return self[: places[position]] if position < len(places) else self

    def written(self, begin: int, end: int) -> str:
        """What stands at those positions of ``plain``, as it was written."""
        places = self._folded[1]
        return self.text[places[begin] : places[end - 1] + 1] if begin < end else ""

    @cached_property
    def lower(self) -> str:
        """In lower case, with its accents."""
        return unicodedata.normalize("NFC", self.shown.translate(_APOSTROPHES).lower())


def sentences_in(text: str) -> Iterator[Piece]:
    shown = _FENCE.sub(lambda found: "\n" + " " * (len(found.group()) - 2) + "\n", text)
    shown = _LINE_OF_A_QUOTE.sub(_hide, shown)
    shown = _QUOTES.sub(_hide, shown)
    turn = Piece(text, shown)
    begin = 0
    for end in (found.end() for found in _END.finditer(shown) if _is_end(shown, found)):
        yield from _clean(turn[begin:end])
        begin = end
    yield from _clean(turn[begin:])


def _hide(found: re.Match[str]) -> str:
    return HIDDEN * len(found.group())


def _is_end(shown: str, found: re.Match[str]) -> bool:
    if found.group() == "\n":
        # A line that was broken for its length goes on in the next one.
        if found.start() - shown.rfind("\n", 0, found.start()) <= _SHORT_LINE:
            return True
        goes_on = _LINE_GOES_ON.match(shown, found.end())
        before = shown[max(0, found.start() - 1) : found.start()]
        return not (goes_on and goes_on.group()[-1].islower() and (before.isalnum() or before == ","))
    if not found.group().startswith(".") or len(found.group()) > 1:
        return True
    return not _ABBREVIATION.search(shown, max(0, found.start() - 10), found.end())


def _clean(piece: Piece) -> Iterator[Piece]:
    piece = piece.trimmed()
    bullet = _BULLET.match(piece.shown)
    if bullet:
        piece = piece[bullet.end() :].trimmed()
    if any(letter.isalpha() or letter == HIDDEN for letter in piece.shown):
        yield piece
