"""What is said again, in nearly the same words: those that are rare count most."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Kept = TypeVar("Kept")

# Below it, two clauses share a subject and not a wish.
ALIKE = 0.45
# So many clauses are taken as heard before the first, that no word is rare or common at the start.
_ASSUMED = 30
# Of the clauses that share a word only the latest are compared: a turn costs the same in a long history.
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

    def weights(self, terms: Iterable[str]) -> dict[str, float]:
        """What each of these words weighs."""
        return {term: self.of(term) ** 2 for term in terms}


class Memory(Generic[Kept]):
    """What was said so far, found again by likeness; with each, whatever was kept with it."""

    def __init__(self, rarity: Rarity) -> None:
        self._rarity = rarity
        self._kept: list[tuple[frozenset[str], float, Kept]] = []
        self._with: defaultdict[str, list[int]] = defaultdict(list)

    def keep(self, terms: frozenset[str], what: Kept) -> None:
        for term in terms:
            self._with[term].append(len(self._kept))
        # What its words weigh by now; words grow rarer too slowly to weigh them again at each look.
        self._kept.append((terms, sum(self._rarity.weights(terms).values()), what))

    def alike(self, terms: frozenset[str], least: float) -> Iterator[tuple[float, Kept]]:
        """What is at least so much alike, and how much, from 0 to 1: the cosine, rare words weighing more."""
        weights = self._rarity.weights(terms)
        whole = sum(weights.values())
        for shared, weight, what in self._near(weights):
            likeness = min(1.0, sum(weights[term] for term in shared) / math.sqrt(whole * weight))
            if likeness >= least:
                yield likeness, what

    def holding(self, terms: frozenset[str], share: float) -> Iterator[tuple[frozenset[str], Kept]]:
        """What says at least so much of these words itself, by weight."""
        weights = self._rarity.weights(terms)
        least = share * sum(weights.values())
        for shared, _, what in self._near(weights):
            if sum(weights[term] for term in shared) >= least:
                yield shared, what

    def _near(self, weights: dict[str, float]) -> Iterator[tuple[frozenset[str], float, Kept]]:
        """What shares a telling word, the latest of each word; with the words that it shares."""
        terms = weights.keys()
        telling = sorted(weights, key=lambda term: (-weights[term], term))[:_TELLING_TERMS]
        places = {place for term in telling for place in self._with.get(term, ())[-_LATEST:]}
        for place in sorted(places):
            earlier, weight, what = self._kept[place]
            yield earlier & terms, weight, what
