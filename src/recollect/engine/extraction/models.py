"""The nouns of extraction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from recollect.engine.language import fold

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Said:
    """A turn. Facts are taken from those of the user alone."""

    role: str
    text: str
    speaker: str | None = None


@dataclass(frozen=True)
class Fact:
    """``slot`` is the question that it answers, where that has one answer at a time: a later fact with the
    same slot takes this one's place, and so it does with whatever is in ``replaces``."""

    text: str
    slot: str | None = None
    replaces: tuple[UUID, ...] = ()
    importance: float | None = None


@dataclass(frozen=True)
class Extraction:
    """``not_understood``: what was said, or found, and is no fact that can be relied on; nothing is lost in
    silence. ``made_by``: "rules", or the model's name."""

    facts: tuple[Fact, ...]
    not_understood: tuple[str, ...]
    made_by: str


def once(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Each fact where it was said last: what was taken back in between holds again. Case, accents and
    punctuation make no other fact."""
    last = {_essence(fact.text): fact for fact in facts}
    return tuple(fact for fact in facts if last[_essence(fact.text)] is fact)


def _essence(text: str) -> str:
    return " ".join(_WORD.findall(fold(text))) or text
