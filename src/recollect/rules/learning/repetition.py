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

# Stems of words for doing something to anything, or not: by them alone two wishes do not differ.
_SAYING_LITTLE = frozenset({
    "add", "alway", "avoid", "can", "cannot", "chang", "creat", "do", "don", "each", "ensur", "ever",
    "everi", "follow", "get", "give", "go", "have", "includ", "insert", "keep", "let", "like", "look",
    "made", "make", "move", "must", "need", "never", "now", "onli", "place", "prefer", "pleas", "put",
    "remov", "run", "set", "should", "start", "stop", "sure", "take", "tell", "tri", "updat", "use",
    "want", "work", "write",
})  # fmt: skip


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
        for likeness, _, what in self._alike(terms, least):
            yield likeness, what

    def same(self, terms: frozenset[str], least: float) -> Iterator[tuple[float, Kept]]:
        """What is so much alike, and not about another thing."""
        for likeness, earlier, what in self._alike(terms, least):
            if not self._are_rivals(terms, earlier):
                yield likeness, what

    def holding(self, terms: frozenset[str], share: float) -> Iterator[tuple[frozenset[str], Kept]]:
        """What says at least so much of these words itself, by weight, and is not about another thing."""
        weights = self._rarity.weights(terms)
        least = share * sum(weights.values())
        for earlier, _, what in self._near(weights):
            shared = earlier & terms
            if sum(weights[term] for term in shared) >= least and not self._are_rivals(terms, earlier):
                yield shared, what

    def _alike(self, terms: frozenset[str], least: float) -> Iterator[tuple[float, frozenset[str], Kept]]:
        weights = self._rarity.weights(terms)
        whole = sum(weights.values())
        for earlier, weight, what in self._near(weights):
            likeness = min(1.0, sum(weights[term] for term in earlier & terms) / math.sqrt(whole * weight))
            if likeness >= least:
                yield likeness, earlier, what

    def _are_rivals(self, one: frozenset[str], other: frozenset[str]) -> bool:
        """Whether each names a thing that the other does not, which weighs as much as any that both name:
        commit messages in English, and commit messages in German."""
        shared = max((self._rarity.of(term) for term in one & other), default=0.0)
        return all(
            max((self._rarity.of(term) for term in rest - _SAYING_LITTLE), default=-1.0) >= shared
            for rest in (one - other, other - one)
        )

    def _near(self, weights: dict[str, float]) -> Iterator[tuple[frozenset[str], float, Kept]]:
        """What shares a telling word, the latest of each word."""
        telling = sorted(weights, key=lambda term: (-weights[term], term))[:_TELLING_TERMS]
        places = {place for term in telling for place in self._with.get(term, ())[-_LATEST:]}
        for place in sorted(places):
            yield self._kept[place]
