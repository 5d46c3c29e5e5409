"""What is looked at in a clause to tell whether it states a durable rule; weights.toml gives each its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

from recollect.engine.language import terms_of
from recollect.rules.chats.models import Turn
from recollect.rules.learning.clauses import Clause, clauses_in
from recollect.rules.learning.cues import language_of, tongue
from recollect.rules.learning.voice import own_words

_RULE_FILE = re.compile(
    r"\b(?:claude|agents?|gemini|conventions|guidelines)\.md\b|\.mdc\b|\.(?:cursor|windsurf|cline)rules\b"
    r"|copilot-instructions|\.(?:cursor|claude)/rules"
)
_CONCRETE = re.compile(r"https?://|#\d+|\b[A-Z]{2,}-\d+\b|\bline \d+|\b\d+px\b|\b[0-9a-f]{7,40}\b")
_EMPHASIS = re.compile(r"(?<![\w./`-])(?!API|CLI|PR|JSON|URL|SQL|HTML|CSS|TODO|README|HTTP|IDE|SDK|UI)[A-Z]{3,}(?![\w./`-])")
_DEMANDS = frozenset({"lasting", "duty", "custom", "ban", "insist", "note", "rather"})
# A turn of so many clauses counts as long in full.
_LONG = 12


@dataclass(frozen=True, slots=True)
class Heard:
    """A clause of the user's, and what was noticed in it."""

    clause: Clause
    language: str
    cues: frozenset[str]
    terms: frozenset[str]
    features: dict[str, float]


def listen(turn: Turn, before: str = "", *, opening: bool = False) -> list[Heard]:
    """The clauses of a turn that could ask for something. ``before`` is what the assistant had just said."""
    shown = own_words(turn.text, before)
    clauses = clauses_in(turn.text, shown)
    if not clauses:
        return []
    language = language_of(" ".join(clause.text for clause in clauses))
    spoken = tongue(language)
    length = min(1.0, (len(clauses) - 1) / _LONG)
    heard = []
    for clause in clauses:
        if spoken.is_nod(clause):
            continue
        cues = spoken.cues_in(clause)
        terms = frozenset(terms_of(clause.plain))
        features = _features(clause, cues, len(terms), turn, opening=opening)
        features["long_turn"] = length
        heard.append(Heard(clause, language, cues, terms, features))
    return heard


def _features(clause: Clause, cues: frozenset[str], terms: int, turn: Turn, *, opening: bool) -> dict[str, float]:
    demands = bool(cues & _DEMANDS)
    complains = "wronged" in cues
    acted = bool(turn.doing) or turn.kind == "rejected"
    found = {
        "bias": True,
        "lasting": "lasting" in cues,
        "duty": "duty" in cues,
        "custom": "custom" in cues,
        "ban": "ban" in cues,
        "insist": "insist" in cues,
        "when": "when" in cues and demands,
        "rather": "rather" in cues,
        "all": "all" in cues and demands,
        "note": "note" in cues,
        "rule_file": _RULE_FILE.search(clause.plain) is not None,
        "wronged": complains,
        "did": "did" in cues,
        "rejects": "rejects" in cues,
        "reaction": turn.kind == "rejected" or (acted and (complains or "rejects" in cues)),
        "emphasis": _EMPHASIS.search(clause.text) is not None and not clause.text.isupper(),
        "question": ("asks" in cues or "asks_for" in cues) and not complains,
        "once": "once" in cues,
        "concrete": _CONCRETE.search(clause.text) is not None,
        "opening": opening,
        "short": terms <= 2,
    }
    return {name: 1.0 for name, holds in found.items() if holds}
