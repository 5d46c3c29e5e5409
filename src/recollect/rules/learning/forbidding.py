"""Whether a rule forbids or asks; what it is about is looked at apart from that."""

from __future__ import annotations

import re
from functools import cache
from re import Pattern
from typing import NamedTuple

from recollect.engine.language import terms_of
from recollect.rules.learning.clauses import plain_of
from recollect.rules.learning.cues import alternatives, read


def forbids(text: str) -> bool:
    """ "Tabs, not spaces" does not: it asks for tabs."""
    patterns = _patterns()
    asked = patterns.besides.sub("", plain_of(text).rstrip(" .!"))
    return patterns.forbids.search(patterns.asks.sub(" ", asked)) is not None


def ruled_out(text: str) -> frozenset[str]:
    """The words for what is not wanted beside what is asked for: spaces, in "tabs, not spaces"."""
    found = _patterns().besides.search(plain_of(text).rstrip(" .!"))
    return frozenset(terms_of(found[0])) if found else frozenset()


def subject_of(text: str) -> frozenset[str]:
    """The words for what is wanted or forbidden, without those that say which of the two, and how much."""
    patterns = _patterns()
    terms = frozenset(terms_of(patterns.urges.sub(" ", patterns.forbids.sub(" ", plain_of(text)))))
    return (terms - ruled_out(text)) or terms


class _Patterns(NamedTuple):
    forbids: Pattern[str]
    asks: Pattern[str]
    besides: Pattern[str]
    urges: Pattern[str]


@cache
def _patterns() -> _Patterns:
    told = {name: alternatives(text) for name, text in read("forbidding.toml").items()}
    return _Patterns(
        forbids=re.compile(rf"(?<!\w)(?:{told['words']})(?!\w)|{told['unspaced']}"),
        asks=re.compile(told["asks"]),
        besides=re.compile(told["besides"]),
        urges=re.compile(rf"(?<!\w)(?:{told['urges']})(?!\w)"),
    )
