"""What learning finds: proposals, and the words they rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["explicit", "implicit", "repeated"]
Reach = Literal["personal", "project", "team"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where it was said. The quote stands in the turn's text, letter by letter."""

    quote: str
    source: str
    session: str
    turn: int
    author: str | None


@dataclass(frozen=True, slots=True)
class Scope:
    reach: Reach
    project: str | None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule that somebody may want to agree to."""

    rule_text: str
    category: str
    confidence: float
    scope: Scope
    kind: Kind
    evidence: tuple[Evidence, ...]
    repeats: str | None = None
    """The existing rule that this is more evidence of."""
