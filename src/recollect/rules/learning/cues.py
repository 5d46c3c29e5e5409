"""What a clause sounds like, in its language: the cues of a standing rule, and those of a single wish.

Each language is a file in ``tongues/`` with these lists:

- ``lasting``: it holds beyond today; ``duty``: it is owed; ``custom``: this is how we do it, or what I like;
- ``ban``: leave it; ``insist``: mind it; ``when``: the occasion it holds on; ``rather``: this, not that;
- ``all``: of every one of a kind; ``note``: write it down as a rule;
- ``wronged``: what was done is not what was asked for; ``did``: about what it did; ``rejects``: no;
- ``conduct``: how the assistant is to go about its work; ``standard``: of consistency, or what offends it;
- ``once``: it holds for now, or for one thing; ``asks``: a question; ``asks_for``: a request put as one;
- ``acts``: it tells somebody to do something; ``product``: about what is made, as its users see it;
- ``nod``: words of which a turn may consist without asking for anything.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from re import Pattern

from recollect.engine.language import fold, languages_of, words_of
from recollect.rules.learning.clauses import Clause

# English first: it is the one in doubt, since the words of the trade are English everywhere.
SPACED = ("english", "spanish", "portuguese", "french", "german", "italian")
KINDS = (
    "lasting", "duty", "custom", "ban", "insist", "when", "rather", "all", "note",
    "wronged", "conduct", "standard", "did", "rejects", "once", "asks", "asks_for", "acts", "product",
)  # fmt: skip
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
# As many letters of another script as a name or a quoted word would not have.
_SEVERAL = 4


@dataclass(frozen=True)
class Wording:
    """How something said becomes something to do."""

    said: Pattern[str]
    rule: str


@dataclass(frozen=True)
class Tongue:
    name: str
    cues: tuple[tuple[str, Pattern[str]], ...]
    act: Pattern[str]
    nod: Pattern[str]
    wordings: tuple[Wording, ...]
    drop: Pattern[str]
    """What may stand before a wish and is cut off."""
    otherwise: str
    """How a wish is put that no wording fits; and a complaint."""
    correction: str

    def cues_in(self, clause: Clause) -> frozenset[str]:
        found = {kind for kind, pattern in self.cues if pattern.search(clause.plain)}
        if clause.asked:
            found.add("asks")
        return frozenset(found)

    def is_act(self, plain: str) -> bool:
        return self.act.search(plain) is not None

    def is_nod(self, clause: Clause) -> bool:
        return self.nod.fullmatch(clause.plain) is not None


def languages_likely(text: str) -> tuple[str, ...]:
    """The languages of a turn that cues are known of; more than one if its words tell no better."""
    if not text.isascii():
        if len(_KANA.findall(text)) >= _SEVERAL:
            return ("japanese",)
        if len(_HAN.findall(text)) >= _SEVERAL:
            return ("chinese",)
        if len(_CYRILLIC.findall(text)) >= _SEVERAL:
            return ("russian",)
    likely = languages_of(words_of(text))
    return tuple(language for language in SPACED if language in likely) or SPACED[:1]


def language_of(clauses: Sequence[Clause]) -> str:
    """The language of a turn: if its words do not tell, the one in which it sounds like anything."""
    likely = languages_likely(" ".join(clause.text for clause in clauses))
    if len(likely) == 1:
        return likely[0]
    return max(likely, key=lambda name: sum(len(tongue(name).cues_in(clause)) for clause in clauses))


@cache
def tongue(name: str) -> Tongue:
    told = tomllib.loads((files(__package__) / "tongues" / f"{name}.toml").read_text("utf-8"))
    edges = ("", "") if told.get("unspaced") else (r"(?<!\w)", r"(?!\w)")

    def pattern(key: str) -> Pattern[str]:
        return re.compile(f"{edges[0]}(?:{_lines(told.get(key, '(?!)'))}){edges[1]}")

    return Tongue(
        name=name,
        cues=tuple((kind, pattern(kind)) for kind in KINDS),
        act=pattern("acts"),
        nod=re.compile(rf"(?:(?:{_lines(told['nod'])})\W*)+"),
        wordings=tuple(
            Wording(re.compile(_folded(each["said"]), re.IGNORECASE), each["rule"])
            for each in told["wording"]
        ),
        drop=re.compile(_folded(told["phrasing"]["drop"]), re.IGNORECASE),
        otherwise=told["phrasing"]["otherwise"],
        correction=told["phrasing"]["correction"],
    )


def _lines(text: str) -> str:
    return _folded("|".join(line for line in text.splitlines() if line.strip()))


def _folded(pattern: str) -> str:
    """As clauses are folded; escapes such as ``\\W`` stay what they are."""
    return "".join(letter if letter.isascii() else fold(letter) for letter in pattern)
