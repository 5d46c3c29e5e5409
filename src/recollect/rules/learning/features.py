"""What is looked at in a clause to tell whether it states a durable rule; weights.toml gives the reasons."""

from __future__ import annotations

import re
from dataclasses import dataclass

from recollect.engine.language import terms_of
from recollect.rules.chats.models import Turn
from recollect.rules.learning.chores import chores_in
from recollect.rules.learning.clauses import LONGEST_CLAUSE, Clause, clauses_in
from recollect.rules.learning.cues import language_of, tongue
from recollect.rules.learning.voice import own_voice

_RULE_FILE = re.compile(
    r"\b(?:claude|agents?|gemini|conventions|guidelines)\.md\b|\.mdc\b|\.(?:cursor|windsurf|cline)rules\b"
    r"|copilot-instructions|\.(?:cursor|claude)/rules"
)
_CONCRETE = re.compile(r"https?://|#\d+|\b[A-Z]{2,}-\d+\b|\bline \d+|\b\d+px\b|\b[0-9a-f]{7,40}\b")
# Words that only mean more for being written so; others in capitals are names.
_EMPHASIS = re.compile(
    r"\b(?:NOT|NEVER|ALWAYS|MUST|ONLY|DON'?T|STOP|ALL|EVERY|ANY|SHOULD|NO|NUNCA|SIEMPRE|SOLO|SEMPRE|JAMAIS|TOUJOURS"
    r"|PAS|NIE|IMMER|NICHT|MAI|NON|N\u00c3O|\u041d\u0415|\u041d\u0418\u041a\u041e\u0413\u0414\u0410|\u0412\u0421\u0415\u0413\u0414\u0410)\b"
)
# Where something is, rather than what is wanted of it: folders, and files of code.
_PLACES = re.compile(
    r"@?(?:[\w.:~-]*[\\/])+(?=[\w.])"
    r"|(?<!\w)@?[\w-]+(?<!\bnode)(?<!\bnext)(?<!\bvue)(?<!\bnuxt)(?<!\bthree)\."
    r"(?:py|ipynb|[jt]sx?|mjs|java|go|rs|rb|php|cs|cpp|css|scss|html?|vue|svelte|dart|kt|swift|sql|sh|csv|xml)\b"
)
_SIGN_OF_A_PLACE = re.compile(r"[/\\]|\.\w")
# So many lines are a document, whoever put it there.
_LINES_OF_A_DOCUMENT = 15
_FENCE = "```"
_DEMANDS = frozenset({"lasting", "duty", "custom", "ban", "insist", "note", "rather"})
# Of these, what is said again is asked for again; a report or a thank-you is not.
_WANTS = _DEMANDS | {"wronged", "conduct", "did", "acts", "asks_for", "please"}
# Fewer words that tell something are too few to know a wish by; "fix this, please" only moves a talk on.
_FEWEST_TERMS = 2
_FEWEST_TERMS_OF_A_TASK = 3


@dataclass(frozen=True, slots=True)
class Heard:
    """A clause of the user's, and what was noticed in it."""

    clause: Clause
    language: str
    cues: frozenset[str]
    terms: frozenset[str]
    features: dict[str, float]
    chores: frozenset[str] = frozenset()

    @property
    def wants(self) -> bool:
        """Whether it asks for something, of which to notice that it is asked for again."""
        wants = self.cues & _WANTS
        fewest = _FEWEST_TERMS_OF_A_TASK if wants == {"acts"} else _FEWEST_TERMS
        return bool(wants) and len(self.terms) >= fewest

    @property
    def is_chore(self) -> bool:
        """Whether a chore is asked for, and nothing laid down about it."""
        return bool(self.chores) and self.cues.isdisjoint(_DEMANDS)


def listen(turn: Turn, before: str = "") -> list[Heard]:
    """The clauses of a turn that could ask for something. ``before`` is what the assistant had just said."""
    shown = own_voice(turn.text, before)
    clauses = clauses_in(turn.text, shown)
    if not clauses:
        return []
    language = language_of(clauses)
    spoken = tongue(language)
    pasted = turn.text.count("\n") > _LINES_OF_A_DOCUMENT or _FENCE in turn.text
    heard = []
    for clause in clauses:
        if spoken.is_nod(clause):
            continue
        cues = spoken.cues_in(clause)
        wish = _without_places(spoken.drop.sub("", clause.plain))
        terms = frozenset(terms_of(wish))
        features = _features(clause, cues, len(terms), turn)
        chores = frozenset[str]() if cues.isdisjoint(_WANTS) else chores_in(wish)
        if pasted:
            features["pasted"] = 1.0
        heard.append(Heard(clause, language, cues, terms, features, chores))
    return heard


def _without_places(plain: str) -> str:
    # Most clauses name none, and the pattern is slow to say so.
    return _PLACES.sub(" ", plain) if _SIGN_OF_A_PLACE.search(plain) else plain


def _features(clause: Clause, cues: frozenset[str], terms: int, turn: Turn) -> dict[str, float]:
    complains = "wronged" in cues
    asks = "asks" in cues and "asks_for" not in cues and not complains
    if asks:
        # Whoever asks whether something should be so has not said that it should.
        cues -= _DEMANDS
    demands = bool(cues & _DEMANDS)
    acted = bool(turn.doing) or turn.kind == "rejected"
    found = {
        "bias": True,
        "lasting": "lasting" in cues,
        "duty": "duty" in cues,
        "custom": "custom" in cues,
        "ban": "ban" in cues,
        "insist": "insist" in cues,
        "rather": "rather" in cues,
        "all": "all" in cues and demands,
        "note": "note" in cues,
        "rule_file": (demands or complains or "did" in cues) and _RULE_FILE.search(clause.plain) is not None,
        "wronged": complains,
        "conduct": "conduct" in cues,
        "did": "did" in cues,
        "reaction": turn.kind == "rejected" or (acted and (complains or "rejects" in cues)),
        "acted": acted,
        "please": "please" in cues,
        "emphasis": _EMPHASIS.search(clause.text) is not None and not clause.text.isupper(),
        "question": asks,
        "once": "once" in cues,
        "product": "product" in cues,
        "concrete": _CONCRETE.search(clause.text) is not None,
        "short": terms <= 2,
    }
    features = {name: 1.0 for name, holds in found.items() if holds}
    features["rambling"] = min(1.0, len(clause.text) / LONGEST_CLAUSE)
    return features
