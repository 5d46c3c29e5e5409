"""The nouns of extraction."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


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
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class Extraction:
    """``not_understood``: what was said, or found, and is no fact that can be relied on; nothing is lost in
    silence. ``made_by``: "rules", or the model's name."""

    facts: tuple[Fact, ...]
    not_understood: tuple[str, ...]
    made_by: str
