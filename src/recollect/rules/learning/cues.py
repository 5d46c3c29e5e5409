"""What a clause sounds like, in its language: the cues of a standing rule, and those of a single wish.

Each language is a file in ``tongues/`` with these lists:

- ``lasting``: it holds beyond today; ``duty``: it is owed; ``custom``: this is how we do it, or what I like;
- ``ban``: leave it; ``insist``: mind it; ``rather``: this, not that;
- ``all``: of every one of a kind; ``note``: write it down as a rule;
- ``wronged``: what was done is not what was asked for; ``did``: about what it did; ``rejects``: no;
- ``conduct``: how the assistant is to go about its work;
- ``once``: it holds for now, or for one thing; ``asks``: a question; ``asks_for``: a request put as one;
- ``acts``: it tells somebody to do something; ``product``: about what is made, as its users see it;
- ``nod``: words of which a turn may consist without asking for anything;
- ``variants``, if letters are also written otherwise: pairs of a letter of the patterns and another for it;
- ``common``, if the engine does not know the language: its commonest words, without those that English has.

``strangers.toml`` has the common words of languages that have no file, lest they be taken for one that has.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from re import Pattern
from typing import Any

from recollect.engine.language import CLEARLY, DEFAULT, fold, languages_of, uncommon, words_of
from recollect.rules.learning.clauses import Clause, clauses_in

# English first: it is the one in doubt, since the words of the trade are English everywhere.
SPACED = (
    DEFAULT, "spanish", "portuguese", "french", "german", "italian",
    "dutch", "polish", "czech", "turkish", "vietnamese", "indonesian",
)  # fmt: skip
CYRILLIC = ("russian", "ukrainian")
UNSPACED = ("chinese", "japanese", "korean")
LANGUAGES = (*SPACED, *CYRILLIC, *UNSPACED)
# A language without a file: no cue is known of it.
UNKNOWN = "unknown"
KINDS = (
    "lasting", "duty", "custom", "ban", "insist", "rather", "all", "note",
    "wronged", "conduct", "did", "rejects", "once", "asks", "asks_for", "acts", "product",
)  # fmt: skip
# Scripts that tell the language; a Japanese text has Chinese characters too.
_SCRIPTS = (
    (re.compile(r"[\uac00-\ud7af]"), "korean"),
    (re.compile(r"[\u3040-\u30ff]"), "japanese"),
    (re.compile(r"[\u4e00-\u9fff]"), "chinese"),
)
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
# The letters by which Ukrainian is told from Russian.
_UKRAINIAN = re.compile(r"[\u0404\u0406\u0407\u0454\u0456\u0457\u0490\u0491]")
# As many letters of another script as a name or a quoted word would not have.
_SEVERAL = 4
# Of so many words, so large a share is common in a language that is known; or it is in none of them.
_MANY_WORDS = 8
_COMMON_SHARE = 0.1
# So many clauses are listened to in every language that is likely.
_TELLING_CLAUSES = 4
_NOWHERE = re.compile(r"(?!)")
# In all of these languages: whoever writes in one often asks in another.
_PLEASE = re.compile(
    r"(?<!\w)(?:please|pls|plz|por favor|porfa|bitte|s'?il (?:te|vous) plait|stp|svp|per favore|alsjeblieft"
    r"|prosze|prosim|lutfen|tolong|mohon|vui long|lam on|пожалуйста|будь ласка)(?!\w)|请|請|ください|주세요"
)


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
    variants: Mapping[int, str]
    """Letters that are also written otherwise, and how the patterns have them."""

    def cues_in(self, clause: Clause) -> frozenset[str]:
        plain = self._as_written(clause.plain)
        found = {kind for kind, pattern in self.cues if pattern.search(plain)}
        if clause.asked:
            found.add("asks")
        if _PLEASE.search(plain):
            found.add("please")
        return frozenset(found)

    def is_act(self, plain: str) -> bool:
        return self.act.search(self._as_written(plain)) is not None

    def is_nod(self, clause: Clause) -> bool:
        return self.nod.fullmatch(self._as_written(clause.plain)) is not None

    def _as_written(self, plain: str) -> str:
        return plain.translate(self.variants) if self.variants else plain


def languages_likely(text: str) -> tuple[str, ...]:
    """The languages of a turn that cues are known of; more than one if its words tell no better."""
    for script, language in () if text.isascii() else _SCRIPTS:
        if len(script.findall(text)) >= _SEVERAL:
            return (language,)
    words = words_of(text)
    votes = _votes(words)
    if not text.isascii() and len(_CYRILLIC.findall(text)) >= _SEVERAL:
        return ("ukrainian",) if _UKRAINIAN.search(text) else _known(votes, CYRILLIC)
    if max(votes.values(), default=0.0) < CLEARLY:
        return SPACED
    common = sum(bool(_having(word)) for word in words)
    if len(words) >= _MANY_WORDS and common < len(words) * _COMMON_SHARE:
        return SPACED[:1] if text.isascii() else (UNKNOWN,)
    return _known(votes, SPACED)


def _known(votes: dict[str, float], languages: tuple[str, ...]) -> tuple[str, ...]:
    """The likeliest of these languages, with the first of them unless another is clearly likelier."""
    most = max(votes.values(), default=0.0)
    first, *others = languages
    doubtful = (first,) if votes.get(first, 0.0) + CLEARLY > most else ()
    return (*doubtful, *(each for each in others if most and votes.get(each) == most)) or (UNKNOWN,)


def _votes(words: Iterable[str]) -> dict[str, float]:
    """As the engine counts them, with the languages that it does not know."""
    votes: dict[str, float] = {}
    for word in words:
        having = _having(word)
        for language in having:
            votes[language] = votes.get(language, 0.0) + 1 / len(having)
    return votes


@lru_cache(maxsize=50_000)
def _having(word: str) -> tuple[str, ...]:
    """The languages in which it is common."""
    known = () if uncommon((word,)) else languages_of((word,))
    return (*known, *(language for language, common in _common_words() if word in common))


@cache
def _common_words() -> tuple[tuple[str, frozenset[str]], ...]:
    told = {name: _told(name).get("common", "") for name in LANGUAGES} | read("strangers.toml")
    return tuple((name, frozenset(fold(words).split())) for name, words in told.items())


def language_of(clauses: Sequence[Clause]) -> str:
    """The language of a turn: if its words do not tell, the one in which it sounds like anything."""
    likely = languages_likely(" ".join(clause.text for clause in clauses))
    # What only nods in the first of them need not be heard in the others.
    if len(likely) == 1 or all(tongue(likely[0]).is_nod(clause) for clause in clauses):
        return likely[0]
    telling = clauses[:_TELLING_CLAUSES]
    return max(likely, key=lambda name: sum(len(tongue(name).cues_in(clause)) for clause in telling))


def language_told(text: str) -> str | None:
    """The language of a text, if it tells any."""
    if languages_likely(text) == SPACED:
        return None
    found = language_of(clauses_in(text, text))
    return None if found == UNKNOWN else found


@cache
def tongue(name: str) -> Tongue:
    if name == UNKNOWN:
        return _silent()
    told = _told(name)
    # Whole words; what ends with a space is one already, whatever follows.
    edges = ("", "") if told.get("unspaced") else (r"(?<!\w)", r"(?:(?<!\w)|(?!\w))")

    variants = {ord(other): usual for usual, other in told.get("variants", "").split()}

    def pattern(key: str) -> Pattern[str]:
        return re.compile(f"{edges[0]}(?:{alternatives(told[key]).translate(variants)}){edges[1]}")

    return Tongue(
        name=name,
        cues=tuple((kind, pattern(kind)) for kind in KINDS),
        act=pattern("acts"),
        # Without a way back: a word that may be read in two ways would double the work each time it comes.
        nod=re.compile(rf"(?>(?:{alternatives(told['nod']).translate(variants)}){edges[1]}\W*)++"),
        wordings=tuple(
            Wording(re.compile(_folded(each["said"]), re.IGNORECASE), each["rule"])
            for each in told["wording"]
        ),
        drop=re.compile(_folded(told["phrasing"]["drop"]), re.IGNORECASE),
        otherwise=told["phrasing"]["otherwise"],
        correction=told["phrasing"]["correction"],
        variants=variants,
    )


def _silent() -> Tongue:
    """The one in which nothing is understood."""
    cues = tuple((kind, _NOWHERE) for kind in KINDS)
    return Tongue(UNKNOWN, cues, _NOWHERE, _NOWHERE, (), _NOWHERE, "{said}", "{said}", {})


def _told(name: str) -> dict[str, Any]:
    return read(f"tongues/{name}.toml")


@cache
def read(path: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / path).read_text("utf-8"))


def alternatives(text: str) -> str:
    """The lines of a list of patterns as one pattern, folded as clauses are."""
    return _folded("|".join(line for line in text.splitlines() if line.strip()))


def _folded(pattern: str) -> str:
    """Letters without their accents; escapes such as ``\\W`` stay what they are."""
    return "".join(letter if letter.isascii() else fold(letter) for letter in pattern)
