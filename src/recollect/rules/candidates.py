"""Turns that may state a rule, for a model to judge: a wider net than without one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.rules.chats.models import Chat, Turn
from recollect.rules.learning.clustering import Statement
from recollect.rules.learning.listening import Listened, Listener, Scored
from recollect.rules.learning.repetition import Rarity
from recollect.rules.learning.scoring import fitted
from recollect.rules.learning.voice import own_voice
from recollect.rules.material import Material

# Less than what it takes alone: four of five rules are in the net, and half of what is in it are rules.
_SHARE_OF_THRESHOLD = 0.6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A turn that may state a rule, and where it stands."""

    chat: Chat
    turn: Turn
    clauses: tuple[Scored, ...]
    voice: str
    """The turn with what is not the user's own blanked out, each character in its place."""
    before: Turn | None
    after: Turn | None

    @property
    def best(self) -> Scored:
        return self.likely[0]

    @property
    def likely(self) -> list[Scored]:
        """The clauses that may be rules, the likeliest first."""
        in_order = sorted(self.clauses, key=lambda each: -each.probability)
        return [each for each in in_order if each.probability >= _least()] or in_order[:1]

    def quoted(self, words: str) -> str | None:
        """These words as the user wrote them, if it was the user: blanks may differ, nothing else."""
        parts = words.split()
        if not parts:
            return None
        found = re.search(r"\s+".join(map(re.escape, parts)), self.voice)
        # What was blanked out between them was somebody else's.
        return found.group() if found and found.group() in self.turn.text else None

    def statement(self, quote: str) -> Statement:
        """The quote as learning knows it: by the clause that it is of."""
        start = self.voice.index(quote)
        within = (each for each in self.clauses if each.heard.clause.start <= start < each.heard.clause.end)
        nearest = next(within, self.best)
        return Statement(self.chat, self.turn, nearest)


@dataclass(frozen=True, slots=True)
class Net:
    """What was caught, and how rare the words are that were heard."""

    candidates: Sequence[Candidate]
    rarity: Rarity


def cast(material: Material) -> Net:
    """The candidates in what is new, the likeliest first. What is old is heard, to know what is repeated."""
    least = _least()
    listener = Listener()
    in_order = sorted(
        material.chats, key=lambda chat: chat.started_at.timestamp() if chat.started_at else 0.0
    )
    places = {id(turn): index for chat in in_order for index, turn in enumerate(chat.turns)}
    found = [
        _candidate(heard, places[id(heard.turn)])
        for heard in listener.chats(in_order)
        if heard.probability >= least and (heard.chat.source, heard.turn.number) in material.new
    ]
    found.sort(key=lambda candidate: -candidate.best.probability)
    return Net(found, listener.rarity)


def _least() -> float:
    return fitted().threshold * _SHARE_OF_THRESHOLD


def _candidate(heard: Listened, index: int) -> Candidate:
    turns = heard.chat.turns
    before = turns[index - 1] if index else None
    return Candidate(
        heard.chat,
        heard.turn,
        heard.clauses,
        voice_of(heard.turn, before),
        before,
        turns[index + 1] if index + 1 < len(turns) else None,
    )


def voice_of(turn: Turn, before: Turn | None) -> str:
    return own_voice(turn.text, before.text if before and before.role == "assistant" else "")
