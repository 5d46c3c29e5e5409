"""BM25 over memories and over windows of their neighbours, from the counts of the words asked for.

A turn is often understood only with the one before it: an answer rarely repeats the words of its question.
So each turn is ranked three times: alone, with one neighbour on each side, and with two. The score of each
is its share of what a text with every word in plenty would get, so that scores mean the same in every
scope: 0 is nothing in common, 1 is everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

K1 = 1.2
B = 0.75
WINDOWS = (0, 1, 2)
# Wider than any window, so that the last turn of one stream is never the neighbour of the next one's first.
_GAP = 8

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Posting:
    """How often a word is said in a memory. ``word`` counts the words asked for, from 0."""

    word: int
    times: int
    memory_id: UUID
    stream: int | None
    place: int | None
    length: int


@dataclass(frozen=True)
class Scope:
    """What the words are counted in: so many memories, with so many words in all."""

    memories: int
    words: int

    @property
    def average(self) -> float:
        return max(self.words / self.memories, 1.0) if self.memories else 1.0


Place = tuple[int, int]


@dataclass(frozen=True)
class Ranked:
    """Scores by words: of memories that have some, and of places whose neighbours have some. ``windows``
    has what each score is the mean of."""

    memories: dict[UUID, float]
    places: dict[Place, float]
    windows: dict[UUID | Place, tuple[float, ...]]


NOTHING = Ranked({}, {}, {})


def rank(
    postings: Sequence[Posting], scope: Scope, words: int, found_in: Mapping[int, int], best: int
) -> Ranked:
    """The best candidates. ``found_in`` says how many memories have a word where not all are listed."""
    if not postings:
        return NOTHING
    lanes, width, keys = _places(postings)
    reach = WINDOWS[-1]
    here = np.unique(np.concatenate([keys + step for step in range(-reach, reach + 1)]))
    at = np.searchsorted(here, keys)
    counts = np.zeros((len(here), words))
    asked = np.array([each.word for each in postings])
    np.add.at(counts, (at, asked), np.array([each.times for each in postings], dtype=np.float64))
    lengths = np.full(len(here), scope.average)
    lengths[at] = [each.length for each in postings]
    by_window = _by_window(here, counts, lengths, scope, found_in)
    scores = by_window.mean(axis=0)
    order = np.argsort(-scores, kind="stable")[:best]
    order = order[scores[order] > 0]
    owners = dict(zip(at.tolist(), (each.memory_id for each in postings), strict=True))
    best_ones = zip(
        order.tolist(), here[order].tolist(), scores[order].tolist(), by_window.T[order].tolist(), strict=True
    )
    return _ranked(best_ones, owners, lanes, width)


def _places(postings: Sequence[Posting]) -> tuple[list[int | UUID], int, Ints]:
    """A number for each memory's place, so that neighbours differ by one."""
    numbers: dict[int | UUID, int] = {}
    width = max((each.place or 0) for each in postings) + 2 * _GAP
    keys = [
        # What stands in no stream has no neighbours.
        numbers.setdefault(each.memory_id if each.stream is None else each.stream, len(numbers)) * width
        + _GAP
        + (each.place or 0)
        for each in postings
    ]
    return list(numbers), width, np.array(keys, dtype=np.int64)


def _by_window(
    here: Ints, counts: Floats, lengths: Floats, scope: Scope, found_in: Mapping[int, int]
) -> Floats:
    """A row of shares for each window, each window one wider on both sides than the one before."""
    said, long = counts.copy(), lengths.copy()
    shares = [_bm25(said, long, scope, found_in, reach=0)]
    for reach in WINDOWS[1:]:
        for step in (-reach, reach):
            at = np.minimum(np.searchsorted(here, here + step), len(here) - 1)
            is_there = here[at] == here + step
            said[is_there] += counts[at[is_there]]
            long += np.where(is_there, lengths[at], scope.average)
        shares.append(_bm25(said, long, scope, found_in, reach))
    return np.stack(shares)


def _bm25(said: Floats, long: Floats, scope: Scope, found_in: Mapping[int, int], reach: int) -> Floats:
    having = (said > 0).sum(axis=0).astype(np.float64)
    for word, memories in found_in.items():
        having[word] = max(having[word], memories * (1 + 2 * reach))
    having = np.minimum(having, scope.memories)
    weight = np.log1p((scope.memories - having + 0.5) / (having + 0.5)) * (having > 0)
    usual = scope.average * (1 + 2 * reach)
    saturated = said * (K1 + 1) / (said + K1 * (1 - B + B * long / usual)[:, None])
    share: Floats = saturated @ weight / (weight.sum() * (K1 + 1))
    return share


def _ranked(
    best: Iterable[tuple[int, int, float, list[float]]],
    owners: Mapping[int, UUID],
    lanes: Sequence[int | UUID],
    width: int,
) -> Ranked:
    memories: dict[UUID, float] = {}
    places: dict[Place, float] = {}
    windows: dict[UUID | Place, tuple[float, ...]] = {}
    for index, key, score, parts in best:
        if (memory_id := owners.get(index)) is not None:
            memories[memory_id] = score
            windows[memory_id] = tuple(parts)
        elif isinstance(lane := lanes[key // width], int):
            place = (lane, key % width - _GAP)
            places[place] = score
            windows[place] = tuple(parts)
    return Ranked(memories, places, windows)
