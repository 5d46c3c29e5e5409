"""What a person asks for again: found by its words, those that are rare counting most."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

# So many clauses of anybody's are taken as heard before the first, in which a word is neither rare nor common.
_ASSUMED = 30
# Of the clauses that share a word only the latest are compared: the cost of a turn does not grow with the history.
_LATEST = 60
_TELLING_TERMS = 8


class Rarity:
    """How rare words are among the clauses heard so far."""

    def __init__(self) -> None:
        self._clauses = _ASSUMED
        self._having: Counter[str] = Counter()

    def learn(self, terms: Iterable[str]) -> None:
        self._clauses += 1
        self._having.update(terms)

    def of(self, term: str) -> float:
        return math.log(1 + self._clauses / (1 + self._having[term]))

    def likeness(self, one: frozenset[str], other: frozenset[str]) -> float:
        """From 0 to 1: the cosine of the two, each word weighing what it is rare."""
        shared = one & other
        if not shared:
            return 0.0
        return sum(self.of(term) ** 2 for term in shared) / (self.length(one) * self.length(other))

    def length(self, terms: frozenset[str]) -> float:
        return math.sqrt(sum(self.of(term) ** 2 for term in terms)) or 1.0


class Memory:
    """What one person has asked for so far, and how much each sounded like a rule."""

    def __init__(self, rarity: Rarity) -> None:
        self._rarity = rarity
        self._kept: list[tuple[frozenset[str], float]] = []
        self._with: defaultdict[str, list[int]] = defaultdict(list)

    def keep(self, terms: frozenset[str], probability: float) -> None:
        for term in terms:
            self._with[term].append(len(self._kept))
        self._kept.append((terms, probability))

    def alike(self, terms: frozenset[str]) -> Iterator[tuple[float, float]]:
        """How alike each earlier clause is that shares a telling word, and how much it sounded like a rule."""
        telling = sorted(terms, key=lambda term: (-self._rarity.of(term), term))[:_TELLING_TERMS]
        places = {place for term in telling for place in self._with.get(term, ())[-_LATEST:]}
        for place in places:
            earlier, probability = self._kept[place]
            yield self._rarity.likeness(terms, earlier), probability
