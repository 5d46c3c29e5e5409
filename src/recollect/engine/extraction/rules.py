"""Facts without a model: what users say of themselves, in the words and the language they said it in.

A statement in the first person is a fact. Questions, requests and courtesies are none and leave no trace.
Everything else that says something is reported as not understood, so that whoever added it can see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from recollect.engine.extraction.models import Extraction, Fact, Said
from recollect.engine.extraction.sentences import HIDDEN, Piece, sentences_in
from recollect.engine.extraction.slots import slot_of
from recollect.engine.extraction.tongue import Tongue, tongues
from recollect.engine.language import fold, languages_of, words_of

MADE_BY = "rules"
# Nobody says more than this in one sentence; what is pasted without punctuation is no statement.
MAX_SENTENCE = 600
MAX_COURTESY_WORDS = 8
MAX_FILLERS = 6

Verdict = Literal["fact", "nothing", "not understood"]

_WORD = re.compile(r"\w+(?:'\w+)*")
_SPOKEN_BY = re.compile(r"[\w .]{1,30}:\s")


def extract(turns: Sequence[Said]) -> Extraction:
    facts: list[Fact] = []
    not_understood: list[str] = []
    for turn in turns:
        if turn.role.casefold() == "user":
            _read(turn.text, facts, not_understood)
    return Extraction(tuple(_once(facts)), tuple(dict.fromkeys(not_understood)), MADE_BY)


def same(text: str) -> str:
    """What two facts have in common that differ in case, accents or punctuation alone."""
    return " ".join(_WORD.findall(fold(text))) or text


def _once(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Each fact where it was said last: what was taken back in between holds again."""
    last = {same(fact.text): position for position, fact in enumerate(facts)}
    yield from (fact for position, fact in enumerate(facts) if last[same(fact.text)] == position)


def _read(text: str, facts: list[Fact], not_understood: list[str]) -> None:
    usual = frozenset(languages_of(words_of(text)))
    was_greeting = False
    for sentence in sentences_in(text):
        tongue = _tongue_of(sentence, usual)
        if tongue is None or len(sentence.text) > MAX_SENTENCE:
            if not _is_question(sentence):
                not_understood.append(sentence.text)
            continue
        is_greeting = tongue.greeting.match(sentence.plain) is not None
        for statement in _statements(_without_filler(sentence, tongue), tongue):
            match _verdict(statement, tongue):
                case "fact":
                    slot = slot_of(statement, tongue, is_introduced=is_greeting or was_greeting)
                    facts.append(Fact(statement.text, slot))
                case "not understood":
                    not_understood.append(statement.text)
        was_greeting = is_greeting


def _tongue_of(sentence: Piece, usual: frozenset[str]) -> Tongue | None:
    """The language of a sentence; of those that it may be in, the one in which it is about the speaker."""
    likely = languages_of(words_of(sentence.shown.replace(HIDDEN, " ")))
    known = [tongue for tongue in tongues() if tongue.name in likely]
    speaking = [tongue for tongue in known if tongue.subject.match(_without_filler(sentence, tongue).plain)]
    pool = speaking or known
    return next((tongue for tongue in pool if tongue.name in usual), pool[0] if pool else None)


def _without_filler(sentence: Piece, tongue: Tongue) -> Piece:
    for _ in range(MAX_FILLERS):
        found = tongue.filler.match(sentence.plain)
        if not found:
            break
        sentence = sentence.after(found.end()).trimmed()
    return sentence


def _statements(sentence: Piece, tongue: Tongue) -> Iterator[Piece]:
    """The statements that a sentence joins, if each of them stands by itself."""
    plain = sentence.plain
    if not (
        tongue.opens.match(plain) or tongue.reported.match(plain) or tongue.unreal.search(sentence.lower)
    ):
        for joint in tongue.joint.finditer(plain):
            if tongue.clause.match(plain) and tongue.clause.match(plain, joint.end()):
                yield from _trimmed(sentence.before(joint.start()))
                yield from _statements(sentence.after(joint.end()), tongue)
                return
    yield from _trimmed(sentence)


def _trimmed(piece: Piece) -> Iterator[Piece]:
    end = len(piece.shown.rstrip(" \t\n,;:-–—"))  # noqa: RUF001
    piece = piece[:end].trimmed()
    if piece.text:
        yield piece


def _is_question(piece: Piece) -> bool:
    return piece.shown.rstrip("\"'”’»)!. \n").endswith(("?", "？", "؟"))  # noqa: RUF001


def _verdict(statement: Piece, tongue: Tongue) -> Verdict:
    plain = statement.plain
    said = _WORD.findall(plain)
    if not said:
        return "not understood" if HIDDEN in statement.shown else "nothing"
    if _is_question(statement) or tongue.asks.match(plain):
        return "nothing"
    is_short = len(said) <= MAX_COURTESY_WORDS
    if is_short and (tongue.courtesies.issuperset(said) or tongue.chatter.match(plain)):
        return "nothing"
    is_own = tongue.subject.match(plain) or tongue.inner.match(plain)
    if not is_own and is_short and tongue.courtesy.match(plain):
        return "nothing"
    is_fact = is_own and not (
        tongue.chatter.match(plain)
        or tongue.unsure.match(plain)
        or tongue.reported.match(plain)
        or tongue.unreal.search(statement.lower)
        or _SPOKEN_BY.match(plain)
    )
    return "fact" if is_fact else "not understood"
