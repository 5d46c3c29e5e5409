"""A rule as somebody would write it down: an imperative sentence, and what it is about."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from re import Pattern

from recollect.engine.language import fold
from recollect.rules.learning.clauses import APOSTROPHES, plain_of
from recollect.rules.learning.cues import Tongue, tongue
from recollect.rules.learning.features import Heard

LONGEST_RULE = 300
OTHERWISE = "best-practices"
# What only fits a sentence that has no other subject: a rule about how to commit is not one about the agent.
_LAST_RESORT = "agent-behaviour"
# A rule does not ask.
_PLEASE = re.compile(r"[\s,]+(?:please|pls|plz|por favor|bitte|svp|stp)[\s.!]*$", re.IGNORECASE)


def rule_text(heard: Heard) -> str:
    """What was said, as something to do."""
    spoken = tongue(heard.language)
    said = " ".join(heard.clause.text.translate(APOSTROPHES).split())
    said = _PLEASE.sub("", _without(said, spoken.drop))
    text = _worded(said, spoken) or (said if spoken.is_act(plain_of(said)) else _framed(said, heard, spoken))
    return _sentence(text)


def is_plain(heard: Heard) -> bool:
    """Whether it was put as something to do in the first place."""
    return "acts" in heard.cues and heard.cues.isdisjoint({"wronged", "did"})


def _without(said: str, opening: Pattern[str]) -> str:
    found = _match(opening, said)
    return said[found.end() :] if found and found.end() < len(said) else said


def _worded(said: str, spoken: Tongue) -> str | None:
    for wording in spoken.wordings:
        if found := _match(wording.said, said):
            parts = [
                (name.rstrip("2"), span)
                for name in wording.said.groupindex
                if (span := found.span(name))[0] >= 0
            ]
            if parts:
                name, (begin, end) = parts[0]
                return wording.rule.replace("{" + name + "}", said[begin:end])
    return None


def _framed(said: str, heard: Heard, spoken: Tongue) -> str:
    complains = not heard.cues.isdisjoint({"wronged", "did"})
    return (spoken.correction if complains else spoken.otherwise).replace("{said}", said)


def _match(pattern: Pattern[str], said: str) -> re.Match[str] | None:
    """Where it fits; patterns are written without accents, and positions have to mean the same with them."""
    plain = fold(said)
    return pattern.match(plain) if len(plain) == len(said) else None


def _sentence(text: str) -> str:
    text = text.strip().rstrip("?!.,;: ")
    # The end of a quotation may be that of the clause.
    text += '"' * (text.count('"') % 2)
    if len(text) > LONGEST_RULE:
        text = text[:LONGEST_RULE].rsplit(" ", 1)[0] + " …"
    return text[:1].upper() + text[1:] + ("" if text.endswith("…") else ".")


def category_of(text: str) -> str:
    """The one whose words it has most of."""
    plain = fold(text)
    found = {category: len(set(pattern.findall(plain))) for category, pattern in _categories()}
    best = max(found, key=lambda category: (found[category], category != _LAST_RESORT))
    return best if found[best] else OTHERWISE


@cache
def _categories() -> tuple[tuple[str, Pattern[str]], ...]:
    told = tomllib.loads((files(__package__) / "categories.toml").read_text("utf-8"))
    return tuple(
        (category, re.compile(rf"(?<![^\W_])(?:{'|'.join(words.split())})"))
        for category, words in told.items()
    )
