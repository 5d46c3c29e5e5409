"""What needs no proposal: what a rule file or a configuration says already, and what was rejected."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from re import Pattern

from recollect.engine.language import terms_of
from recollect.rules.learning.clauses import clauses_in, plain_of
from recollect.rules.learning.repetition import Memory, Rarity

# So much of what a rule says, by weight of its words, stands in one sentence already.
COVERED = 0.7
# To say no once is meant for other words, too.
REJECTED = 0.5
_FEWEST_SHARED = 2
_FORBIDS = re.compile(
    r"(?<!\w)(?:do ?n'?t|not|never|no|avoid|stop|without|nunca|jamas|evita|nao|evite|jamais|pas|nie|niemals|"
    r"nicht|keine?n?|vermeide|mai|non|не|никогда)(?!\w)|不要|别|禁止|避免|ないで|禁止"
)


class Known:
    """Statements, compared with by their words and by whether they forbid."""

    def __init__(self, statements: Iterable[str], rarity: Rarity, *, share: float) -> None:
        self._share = share
        self._statements: Memory[bool] = Memory(rarity)
        for statement in statements:
            self._statements.keep(frozenset(terms_of(plain_of(statement))), forbids(statement))

    def says(self, rule: str) -> bool:
        terms = frozenset(terms_of(plain_of(rule)))
        forbidden = forbids(rule)
        return any(
            len(shared) >= min(_FEWEST_SHARED, len(terms)) and forbids_too == forbidden
            for shared, forbids_too in self._statements.holding(terms, self._share)
        )


def forbids(text: str) -> bool:
    return _FORBIDS.search(plain_of(text)) is not None


def statements_in(texts: Iterable[str]) -> Iterator[str]:
    """The sentences of rule files, and what the settings among them amount to."""
    for text in texts:
        for pattern, says in _settings():
            if pattern.search(text):
                yield from (clause.text for clause in clauses_in(says, says))
        for line in text.splitlines():
            yield from (clause.text for clause in clauses_in(line, line))


@cache
def _settings() -> tuple[tuple[Pattern[str], str], ...]:
    told = tomllib.loads((files(__package__) / "settings.toml").read_text("utf-8"))
    return tuple((re.compile(each["found"]), each["says"]) for each in told["setting"])
