"""Turn after turn, in the order in which they were said: what in each sounds like a rule, and how much."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from recollect.rules.chats.models import Chat, Turn
from recollect.rules.chats.sameness import places
from recollect.rules.learning.features import Heard, listen
from recollect.rules.learning.repetition import ALIKE, Memory, Rarity
from recollect.rules.learning.scoring import Model, fitted

# Doublings of how often something was asked for, beyond which it makes no difference.
_OFTEN = 3.0


@dataclass(frozen=True, slots=True)
class Scored:
    """A clause with the probability that it states a durable rule."""

    heard: Heard
    probability: float


@dataclass(frozen=True, slots=True)
class Listened:
    """A human turn and its clauses."""

    chat: Chat
    turn: Turn
    clauses: tuple[Scored, ...]

    @property
    def probability(self) -> float:
        return max((each.probability for each in self.clauses), default=0.0)


class Listener:
    """Remembers what each person asked for, to notice it when it is asked for again."""

    def __init__(self, model: Model | None = None) -> None:
        self._model = model or fitted()
        self.rarity = Rarity()
        self._memories: defaultdict[str, Memory[float]] = defaultdict(lambda: Memory(self.rarity))
        self._chores: defaultdict[str, set[str]] = defaultdict(set)
        self._seen: set[int] = set()

    def chats(self, chats: Iterable[Chat]) -> Iterator[Listened]:
        for chat in chats:
            yield from self.chat(chat)

    def chat(self, chat: Chat) -> Iterator[Listened]:
        before = previous = ""
        for turn, place in zip(chat.turns, places(chat), strict=True):
            if turn.role == "assistant":
                before = turn.text
                continue
            mark = hash((turn.text, place, chat.author))
            # What is sent again at once was not answered, rather than asked for again.
            if mark not in self._seen and turn.text != previous:
                self._seen.add(mark)
                yield Listened(chat, turn, self.turn(turn, before, speaker_of(chat)))
            previous = turn.text

    def turn(self, turn: Turn, before: str, speaker: str) -> tuple[Scored, ...]:
        memory = self._memories[speaker]
        heard_now = listen(turn, before)
        # By itself, lest a phrase become a rule by being repeated alone.
        alone = [self._model.probability(heard.features) for heard in heard_now]
        asked_for = self._chores[speaker]
        for heard in heard_now:
            self._recall(heard, memory)
            if not heard.chores.isdisjoint(asked_for):
                heard.features["chore_again"] = 1.0
        asked_for.update(*(heard.chores for heard in heard_now))
        for heard, probability in zip(heard_now, alone, strict=True):
            self.rarity.learn(heard.terms)
            if heard.wants:
                memory.keep(heard.terms, probability)
        return tuple(Scored(heard, self._model.probability(heard.features)) for heard in heard_now)

    @staticmethod
    def _recall(heard: Heard, memory: Memory[float]) -> None:
        if not heard.wants:
            return
        again = ruled = 0.0
        times = 0
        for likeness, probability in memory.alike(heard.terms, ALIKE):
            times += 1
            again = max(again, likeness)
            ruled = max(ruled, likeness * probability)
        if again:
            heard.features["again"] = again
            heard.features["again_rule"] = ruled
            heard.features["often"] = min(math.log2(times), _OFTEN)


def speaker_of(chat: Chat) -> str:
    """Who speaks: the author, or whoever works on the project."""
    return chat.author or chat.project or ""


def score_turn(
    turn: Turn, before: Turn | None = None, listener: Listener | None = None, speaker: str = ""
) -> float:
    """The probability that a human turn states a durable rule, after what the listener has heard so far."""
    listener = listener or Listener()
    clauses = listener.turn(turn, before.text if before else "", speaker)
    return max((each.probability for each in clauses), default=0.0)
