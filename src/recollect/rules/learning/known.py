"""What needs no proposal: what a rule file or a configuration says already, and what was rejected."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from re import Pattern
from typing import Any

from recollect.rules.learning.clauses import clauses_in
from recollect.rules.learning.forbidding import forbids, subject_of
from recollect.rules.learning.repetition import Memory, Rarity

TextsOf = Callable[[str | None], Sequence[str]]
"""The texts of rule files and configurations of a chat's project."""

# So much of what a rule says, by weight of its words, stands in one sentence already.
COVERED = 0.7
# To say no once is meant for other words, too.
REJECTED = 0.5
_FEWEST_SHARED = 2
# A rule of a linter that is on, as JSON, JavaScript and YAML put it: alone, in a list or with a level.
_SWITCHED_ON = (
    r"""(?<![\w-])(?:{names})["']?\s*[:=]\s*[\[{{]?\s*(?:-\s*)?(?:["']?level["']?\s*:\s*)?["']?"""
    r"""(?:error|warn|on|true|True|[12])\b"""
)
# Among the rules that are asked for, and not among those that are let be.
_SELECTED = (
    r"""(?<![\w-])(?:extend-)?select\s*=\s*(?:\[[^\]]*["'](?:{codes})["']|(?:\w+,\s*)*(?:{codes})\b)"""
)


def no_texts(_project: str | None) -> Sequence[str]:
    return ()


class Known:
    """Statements, compared with by their words and by whether they forbid."""

    def __init__(self, statements: Iterable[str], rarity: Rarity, *, share: float) -> None:
        self._share = share
        self._statements: Memory[bool] = Memory(rarity)
        for statement in statements:
            self._statements.keep(subject_of(statement), forbids(statement))

    def says(self, rule: str) -> bool:
        terms = subject_of(rule)
        forbidden = forbids(rule)
        return any(
            len(shared) >= min(_FEWEST_SHARED, len(terms)) and forbids_too == forbidden
            for shared, forbids_too in self._statements.holding(terms, self._share)
        )


class Told:
    """What the rule files and configurations of projects say. Those of a project are read once."""

    def __init__(self, texts_of: TextsOf, rarity: Rarity) -> None:
        self._texts_of = texts_of
        self._rarity = rarity
        self._of: dict[str | None, Known] = {}

    def says(self, rule: str, projects: Iterable[str | None]) -> bool:
        """Whether it is told in each project in which it was said."""
        return all(self._known(project).says(rule) for project in projects)

    def _known(self, project: str | None) -> Known:
        if project not in self._of:
            statements = statements_in(self._texts_of(project))
            self._of[project] = Known(statements, self._rarity, share=COVERED)
        return self._of[project]


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
    return tuple((_found(each), each["says"]) for each in told["setting"])


def _found(setting: dict[str, Any]) -> Pattern[str]:
    ways = [setting["found"]] if "found" in setting else []
    if switched := setting.get("switched"):
        ways.append(_SWITCHED_ON.format(names="|".join(switched)))
    if selected := setting.get("selected"):
        ways.append(_SELECTED.format(codes="|".join(selected)))
    return re.compile("|".join(ways))
