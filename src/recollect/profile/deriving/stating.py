"""Goals and triggers that somebody stated: "I want to ...", "Crowds make me anxious, I'd rather ...".

Each language is a file in ``sayings/``, read as the engine reads its own. What is asked, quoted, reported,
said to another or under a condition is no goal. Neither is "I don't want to ...": it tells what is refused,
often only for the moment, and not what is wanted.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from re import Match, Pattern
from typing import Literal

from recollect.engine.extraction.rules import MAX_SENTENCE, is_question, without_filler
from recollect.engine.extraction.sentences import Piece, sentences_in
from recollect.engine.extraction.tongue import Tongue, patterns, tongues
from recollect.engine.language import words_of
from recollect.kit.text import plain
from recollect.profile.deriving.wording import shortened

MAX_CHARACTERS = 300
LANGUAGES = ("english", "spanish", "portuguese", "french", "german", "italian")
_AROUND = " \t\n.,;:!-–—…\"'"  # noqa: RUF001


@dataclass(frozen=True)
class Stated:
    kind: Literal["goal", "trigger"]
    text: str
    outcome: str = ""
    """What is wanted instead, where it was said with a trigger."""


@dataclass(frozen=True)
class Sayings:
    tongue: Tongue
    hints: frozenset[str]
    """A sentence with none of these words is not looked at."""
    negations: frozenset[str]
    most_present: str
    """How the line on the most present parts begins."""
    goal: Pattern[str]
    """How a goal begins; it is what follows."""
    no_goal: Pattern[str]
    """What follows and is none."""
    triggers: tuple[Pattern[str], ...]
    """A group "when" is a situation, "trigger" a thing; "outcome" is what is wanted in it."""
    rather: Pattern[str]
    """How the outcome begins where the pattern has no group for it."""
    no_trigger: Pattern[str]
    ends: Pattern[str]
    """Where one clause ends and the next begins."""
    condition: Pattern[str]
    never: Pattern[str]
    never_written: Pattern[str] | None
    """What only its accents tell from a goal."""


def stated(text: str, language: str | None = None) -> list[Stated]:
    """``language``: one of ``LANGUAGES``; without it each is tried: hardly a phrase is in two of them."""
    text = plain(text)
    return list(statements_in(text, words_of(text), language))


def statements_in(text: str, words: Collection[str], language: str | None = None) -> Iterator[Stated]:
    """``words``: those of the text."""
    likely = [
        each
        for each in sayings()
        if language in (None, each.tongue.name) and not each.hints.isdisjoint(words)
    ]
    for sentence in sentences_in(text) if likely else ():
        if len(sentence.text) > MAX_SENTENCE or is_question(sentence):
            continue
        own = set(words_of(sentence.shown))
        for each in likely:
            if not each.hints.isdisjoint(own) and (found := _read(sentence, each)):
                yield from found
                break


@cache
def sayings() -> tuple[Sayings, ...]:
    by_name = {tongue.name: tongue for tongue in tongues()}
    return tuple(_load(by_name[name]) for name in LANGUAGES)


def _load(tongue: Tongue) -> Sayings:
    told = tomllib.loads((files(__package__) / "sayings" / f"{tongue.name}.toml").read_text("utf-8"))
    pattern = patterns(told)
    written = told.get("never_written")
    return Sayings(
        tongue=tongue,
        hints=frozenset(told["hints"].split()),
        negations=frozenset(told["negations"].split()),
        most_present=told["most_present"],
        goal=pattern(told["goal"], after=r"\s*"),
        no_goal=pattern(told["no_goal"]),
        triggers=tuple(pattern(line, after="") for line in told["trigger"].splitlines() if line.strip()),
        rather=pattern(told["rather"]),
        no_trigger=pattern(told["no_trigger"]),
        ends=pattern(told["ends"], after=r"\s*"),
        condition=pattern(told["condition"]),
        never=pattern(told["never"], before=r"(?<!\w)"),
        never_written=pattern(written, before=r"(?<!\w)") if written else None,
    )


def _read(sentence: Piece, say: Sayings) -> list[Stated]:
    sentence = without_filler(sentence, say.tongue)
    # "When my boss says no, ..." reports nothing.
    if say.tongue.reported.match(sentence.plain) and not say.tongue.opens.match(sentence.plain):
        return []
    trigger = _trigger(sentence, say)
    if trigger:
        return [trigger]
    if say.condition.match(sentence.plain):
        return []
    return [goal for clause in _clauses(sentence, say) if (goal := _goal(clause, say))]


def _clauses(sentence: Piece, say: Sayings) -> Iterator[Piece]:
    while end := say.ends.search(sentence.plain, 1):
        yield without_filler(sentence.before(end.start()), say.tongue)
        sentence = without_filler(sentence.after(end.end()).trimmed(), say.tongue)
    yield sentence


def _goal(clause: Piece, say: Sayings) -> Stated | None:
    plain = clause.plain
    found = say.goal.match(plain)
    if (
        not found
        or found.end() >= len(plain)
        or say.no_goal.match(plain, found.end())
        or say.never.search(plain, found.end())
        or (say.never_written and say.never_written.search(clause.lower))
        or say.tongue.asks.match(plain)
        or say.tongue.you.search(clause.lower)
    ):
        return None
    text = _tidy(clause.written(found.end(), len(plain)))
    return Stated("goal", text) if text else None


def _trigger(sentence: Piece, say: Sayings) -> Stated | None:
    plain = sentence.plain
    for pattern in say.triggers:
        found = pattern.match(plain)
        if found is None or (say.never_written and say.never_written.search(sentence.lower)):
            continue
        begin, end = _place(found, plain, say)
        words = words_of(plain[begin:end])
        if not words or words[-1] in say.negations:
            continue
        if "trigger" in found.groupdict() and say.no_trigger.match(plain[begin:end]):
            continue
        text = _tidy(sentence.written(begin, end))
        outcome = _tidy(sentence.written(*_outcome(found, plain, say)))
        if text and not say.never.search(plain):
            return Stated("trigger", text, outcome)
    return None


def _place(found: Match[str], plain: str, say: Sayings) -> tuple[int, int]:
    """Where the trigger stands, without the clauses around it."""
    if "trigger" in found.groupdict():
        begin, end = found.span("trigger")
        return max([begin, *(each.end() for each in say.ends.finditer(plain, begin, end))]), end
    begin, end = found.span("when")
    if end == len(plain):
        stops = [pattern.search(plain, begin) for pattern in (say.rather, say.ends)]
        end = min([end, *(stop.start() for stop in stops if stop)])
    return begin, end


def _outcome(found: Match[str], plain: str, say: Sayings) -> tuple[int, int]:
    if "outcome" in found.groupdict():
        begin, end = found.span("outcome")
    else:
        # A situation that is told last was read to the end of the sentence.
        rather = say.rather.search(plain, min(found.end(), _place(found, plain, say)[1]))
        if rather is None:
            return 0, 0
        begin, end = rather.end(), len(plain)
    stop = say.ends.search(plain, begin, end)
    return begin, stop.start() if stop else end


def _tidy(text: str) -> str:
    text = shortened(text.strip(_AROUND), MAX_CHARACTERS)
    return text[:1].upper() + text[1:]
