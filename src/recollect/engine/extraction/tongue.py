"""What has to be known of a language to tell statements about the speaker from everything else.

Each language is a file in ``tongues/``: lists of patterns, a line for each, for text in lower case without
accents (``Piece.plain``); those of ``unreal`` and ``you`` see the accents. In a pattern ``<name>`` is a
fragment of that file. Every pattern is tried at one place, or runs over a bounded sentence: none runs away.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from re import Pattern
from typing import Any, Protocol

from recollect.engine.language import languages_of, words_of

LANGUAGES = ("english", "spanish", "german", "french", "italian", "portuguese", "dutch")

# Half a word that no other language has.
CLEARLY = 0.5
FOREIGN = 0.8
_FRAGMENT = re.compile(r"(?<!\?P)<(\w+)>")
_GROUPS = {"place": "(?P<place>.+)", "thing": "(?P<thing>.+)"}


@dataclass(frozen=True)
class Tongue:
    name: str
    subject: Pattern[str]
    """How a statement about the speaker begins."""
    clause: Pattern[str]
    """How one begins that stands by itself."""
    inner: Pattern[str]
    """How one begins that comes to the speaker later."""
    filler: Pattern[str]
    """What may stand before and is cut off."""
    greeting: Pattern[str]
    courtesies: frozenset[str]
    """Words of which a sentence may consist without saying anything."""
    courtesy: Pattern[str]
    """How a short sentence begins that says nothing, if it is not about the speaker."""
    asks: Pattern[str]
    """How questions and requests begin."""
    unsure: Pattern[str]
    """How a statement begins that is about the speaker, and yet no fact that stands by itself: "I agree"."""
    unreal: Pattern[str]
    """What makes it a wish or a condition."""
    self: Pattern[str]
    """Any word for the speaker."""
    you: Pattern[str]
    """Whom the speaker talks to: what is said to please them is about them."""
    reported: Pattern[str]
    """How somebody else's words are introduced."""
    past: Pattern[str]
    """What was so and may be no longer: it answers no question about now."""
    opens: Pattern[str]
    """A first half that does not stand by itself."""
    joint: Pattern[str]
    """Where a second statement begins."""
    slots: tuple[tuple[str, Pattern[str]], ...]
    """Questions with one answer at a time. A group "place" has to look like a name; a group "thing" is what
    the question is about."""
    stops: Pattern[str]
    """Where the name of a thing ends."""
    dropped: frozenset[str]
    """Words that make no difference to which thing it is."""
    no_place: frozenset[str]
    """What follows "I live in" and is no name of a place."""
    things: Mapping[str, str]
    """What people have favourites of, in English: then the question is the same in every language."""


def likely_languages(text: str) -> dict[str, float]:
    """The languages that a text may be in, by how much speaks for each: a few words seldom tell for sure."""
    votes = dict.fromkeys(languages_of(()), 0.0)
    for word in words_of(text):
        having = _languages_with(word)
        for language in having:
            votes[language] += 1 / len(having)
    most = max(votes.values())
    known = max(votes[language] for language in LANGUAGES)
    # Of those that nothing is known of, a foreign word or two may remind.
    least = (known if known > most - FOREIGN else most) - CLEARLY
    return {language: vote for language, vote in votes.items() if vote > least}


@lru_cache(maxsize=50_000)
def _languages_with(word: str) -> tuple[str, ...]:
    found = languages_of((word,))
    return found if found != languages_of(()) else ()


@cache
def tongues() -> tuple[Tongue, ...]:
    # When they are first needed: to compile them takes longer than most commands.
    return tuple(map(_read, LANGUAGES))


def _read(name: str) -> Tongue:
    told = tomllib.loads((files(__package__) / "tongues" / f"{name}.toml").read_text("utf-8"))
    pattern = patterns(told)

    def begins(key: str) -> Pattern[str]:
        return pattern(told[key])

    def occurs(key: str) -> Pattern[str]:
        return pattern(told[key], before=r"(?<!\w)")

    return Tongue(
        name=name,
        subject=begins("subject"),
        clause=begins("clause"),
        inner=begins("inner"),
        filler=pattern(told["filler"], after=r"\s*"),
        greeting=begins("greeting"),
        courtesies=_words(told, "courtesies"),
        courtesy=begins("courtesy"),
        asks=begins("asks"),
        unsure=begins("unsure"),
        unreal=occurs("unreal"),
        self=occurs("self"),
        you=occurs("you"),
        reported=begins("reported"),
        past=occurs("past"),
        opens=begins("opens"),
        joint=pattern(rf"[,;]\s+(?:(?:{told['joins']})\s+)?|\s(?:{told['joins']})\s+", after=""),
        slots=tuple(
            (slot, pattern(line, after=""))
            for slot, text in told["slots"].items()
            for line in text.split("\n")
            if line.strip()
        ),
        stops=pattern(told["stops"], after=""),
        dropped=_words(told, "dropped"),
        no_place=_words(told, "no_place"),
        things=told["things"],
    )


class Compile(Protocol):
    def __call__(self, text: str, before: str = "", after: str = r"(?!\w)") -> Pattern[str]: ...


def patterns(told: Mapping[str, Any]) -> Compile:
    """How the patterns of a language's file are read: a line for each, with that file's fragments."""
    fragments = _GROUPS | {key: _lines(text) for key, text in told.get("fragments", {}).items()}

    def pattern(text: str, before: str = "", after: str = r"(?!\w)") -> Pattern[str]:
        return re.compile(f"{before}(?:{_filled(_lines(text), fragments)}){after}")

    return pattern


def _lines(text: str) -> str:
    return "\n|".join(line.strip() for line in text.splitlines() if line.strip())


def _filled(text: str, fragments: Mapping[str, str]) -> str:
    return _FRAGMENT.sub(lambda found: f"(?:{_filled(fragments[found[1]], fragments)})", text).replace(
        "\n", ""
    )


def _words(told: Mapping[str, Any], key: str) -> frozenset[str]:
    return frozenset(told[key].split())
