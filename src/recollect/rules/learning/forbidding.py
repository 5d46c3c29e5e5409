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
    patterns = _patterns()
    return patterns.forbids.search(patterns.asks.sub(" ", plain_of(text).rstrip(" .!"))) is not None


def subject_of(text: str) -> frozenset[str]:
    """The words for what is wanted or forbidden, without those that say which of the two, and how much."""
    patterns = _patterns()
    return frozenset(terms_of(patterns.urges.sub(" ", patterns.forbids.sub(" ", plain_of(text)))))


class _Patterns(NamedTuple):
    forbids: Pattern[str]
    asks: Pattern[str]
    urges: Pattern[str]


@cache
def _patterns() -> _Patterns:
    told = {name: alternatives(text) for name, text in read("forbidding.toml").items()}
    return _Patterns(
        forbids=re.compile(rf"(?<!\w)(?:{told['words']})(?!\w)|{told['unspaced']}"),
        asks=re.compile(told["asks"]),
        urges=re.compile(rf"(?<!\w)(?:{told['urges']})(?!\w)"),
    )
