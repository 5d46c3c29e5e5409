"""Facts without a model: what users say of themselves, in the words and the language they said it in.

A statement in the first person is a fact. Questions, requests and courtesies are none and leave no trace.
Everything else that says something is reported as not understood, so that whoever added it can see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from recollect.engine.extraction.models import Extraction, Fact, Said, once
from recollect.engine.extraction.sentences import HIDDEN, Piece, sentences_in
from recollect.engine.extraction.slots import slot_of
from recollect.engine.extraction.tongue import Tongue, likely_languages, tongues

MADE_BY = "rules"
# Nobody says more than this in one sentence; what is pasted without punctuation is no statement.
MAX_SENTENCE = 600
MAX_COURTESY_WORDS = 8
MAX_FILLERS = 6

Verdict = Literal["fact", "nothing", "not understood"]

_WORD = re.compile(r"\w+(?:'\w+)*")
_SPEAKER = re.compile(r"[\w .]{1,30}:\s")


def extract(turns: Sequence[Said]) -> Extraction:
    facts: list[Fact] = []
    not_understood: list[str] = []
    for turn in turns:
        if turn.role.casefold() == "user":
            _read(turn.text, facts, not_understood)
    return Extraction(once(facts), tuple(dict.fromkeys(not_understood)), MADE_BY)


def _read(text: str, facts: list[Fact], not_understood: list[str]) -> None:
    usual = likely_languages(text)
    was_greeting = False
    for sentence in sentences_in(text):
        tongue = _tongue_of(sentence, usual) if len(sentence.text) <= MAX_SENTENCE else None
        if tongue is None:
            if not is_question(sentence):
                not_understood.append(sentence.text)
            continue
        is_greeting = tongue.greeting.match(sentence.plain) is not None
        for statement in _statements(without_filler(sentence, tongue), tongue):
            match _verdict(statement, tongue):
                case "fact":
                    slot = slot_of(statement, tongue, is_introduced=is_greeting or was_greeting)
                    facts.append(Fact(statement.text, slot))
                case "not understood":
                    not_understood.append(statement.text)
        was_greeting = is_greeting


def _tongue_of(sentence: Piece, usual: Mapping[str, float]) -> Tongue | None:
    """The language of a sentence; of those that it may be in, the one in which it is about the speaker."""
    likely = likely_languages(sentence.shown)
    known = [tongue for tongue in tongues() if tongue.name in likely]
    cut = {tongue.name: without_filler(sentence, tongue) for tongue in known}
    speaking = [tongue for tongue in known if tongue.subject.match(cut[tongue.name].plain)]
    silent = [tongue for tongue in known if _verdict(cut[tongue.name], tongue) == "nothing"]
    pool = speaking or silent or known
    # What a pattern knows by its verb tells more than the language of the sentences around it.
    return max(
        pool,
        key=lambda tongue: (
            slot_of(cut[tongue.name], tongue) is not None,
            usual.get(tongue.name, 0),
            likely[tongue.name],
        ),
        default=None,
    )


def without_filler(sentence: Piece, tongue: Tongue) -> Piece:
    for _ in range(MAX_FILLERS):
        found = tongue.filler.match(sentence.plain)
        if not found:
            break
        sentence = sentence.after(found.end()).trimmed()
    return sentence


def _statements(sentence: Piece, tongue: Tongue) -> Iterator[Piece]:
    """The statements that a sentence joins, if each of them stands by itself; and what it asks."""
    plain = sentence.plain
    if not (
        tongue.opens.match(plain) or tongue.reported.match(plain) or tongue.unreal.search(sentence.lower)
    ):
        for joint in tongue.joint.finditer(plain) if tongue.clause.match(plain) else ():
            # "I am vegan, what can I eat?" tells something before it asks.
            is_second = tongue.clause.match(plain, joint.end()) or tongue.asks.match(plain, joint.end())
            if is_second or is_question(sentence):
                yield from _trimmed(sentence.before(joint.start()))
                yield from _statements(sentence.after(joint.end()), tongue)
                return
    yield from _trimmed(sentence)


def _trimmed(piece: Piece) -> Iterator[Piece]:
    end = len(piece.shown.rstrip(" \t\n,;:-–—"))  # noqa: RUF001
    piece = piece[:end].trimmed()
    if piece.text:
        yield piece


def is_question(piece: Piece) -> bool:
    return piece.shown.rstrip("\"'”’»)!. \n").endswith(("?", "？", "؟"))  # noqa: RUF001


def _verdict(statement: Piece, tongue: Tongue) -> Verdict:
    plain = statement.plain
    said = _WORD.findall(plain)
    if not said:
        return "not understood" if HIDDEN in statement.shown else "nothing"
    is_asked = is_question(statement)
    if is_asked and tongue.opens.match(plain) and tongue.self.search(plain):
        return "not understood"
    is_empty = len(said) <= MAX_COURTESY_WORDS and (
        tongue.courtesies.issuperset(said)
        or (tongue.courtesy.match(plain) is not None and not tongue.self.search(plain))
    )
    if is_asked or is_empty or tongue.asks.match(plain):
        return "nothing"
    return "fact" if _is_fact(statement, tongue, len(said)) else "not understood"


def _is_spoken_by_another(plain: str, tongue: Tongue) -> bool:
    """ "My friend: I live in Rome", but not "My address: Main Street"."""
    found = _SPEAKER.match(plain)
    return found is not None and tongue.subject.match(plain, found.end()) is not None


def _is_fact(statement: Piece, tongue: Tongue, length: int) -> bool:
    plain = statement.plain
    is_own = tongue.clause.match(plain) or (
        length > 3 and (tongue.subject.match(plain) or tongue.inner.match(plain))
    )
    return bool(is_own) and not (
        tongue.unsure.match(plain)
        or tongue.you.search(statement.lower)
        or tongue.reported.match(plain)
        or tongue.unreal.search(statement.lower)
        or _is_spoken_by_another(plain, tongue)
    )
