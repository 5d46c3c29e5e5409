"""BM25 as the books have it, and windows of neighbours on top."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import psycopg
import pytest

from recollect.bootstrap import Services

pytestmark = pytest.mark.anyio

K1 = 1.2
B = 0.75
STREAM = 1 << 24
RANK = """
select spot, turn, of_three, of_five
from private.rank_by_words(%s::integer[], %s::integer[], %s::bigint[], %s::integer[], %s, %s, %s::integer[])
"""


@dataclass(frozen=True)
class Posting:
    """How often a word is said at a spot, in a memory of that many words. Words count from 1."""

    word: int
    times: int
    spot: int
    length: int = 5


@dataclass(frozen=True)
class Shares:
    turn: float
    of_three: float
    of_five: float

    @property
    def mean(self) -> float:
        return (self.turn + self.of_three + self.of_five) / 3


class Ranking:
    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self._connection = connection

    async def __call__(
        self, postings: Sequence[Posting], *, memories: int, average: float = 5.0, having: Sequence[int]
    ) -> dict[int, Shares]:
        listed = [
            [posting.word for posting in postings],
            [posting.times for posting in postings],
            [posting.spot for posting in postings],
            [posting.length for posting in postings],
        ]
        cursor = await self._connection.execute(RANK, (*listed, memories, average, list(having)))
        return {spot: Shares(*shares) for spot, *shares in await cursor.fetchall()}


@pytest.fixture
async def rank(services: Services) -> AsyncIterator[Ranking]:
    async with await psycopg.AsyncConnection.connect(services.database.admin) as connection:
        yield Ranking(connection)


async def test_alone_a_memory_has_the_score_of_the_formula(rank: Ranking) -> None:
    """One word of two, in one of four memories, twice among six words, five on average."""
    postings = [Posting(1, 2, STREAM + 1, 6), Posting(2, 1, 2 * STREAM)]
    ranked = await rank(postings, memories=4, having=[0, 0])
    weight = math.log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    saturated = 2 * (K1 + 1) / (2 + K1 * (1 - B + B * 6 / 5))
    assert ranked[STREAM + 1].turn == pytest.approx(weight * saturated / (2 * weight * (K1 + 1)))


async def test_with_its_neighbours_it_has_the_score_of_what_they_say_together(rank: Ranking) -> None:
    """Three times among eleven words of two neighbours, and of a third that says nothing of it, all of five
    on average: the word is in three windows of five memories."""
    postings = [Posting(1, 2, STREAM + 1, 6), Posting(1, 1, STREAM + 2)]
    ranked = await rank(postings, memories=5, having=[0])
    assert ranked[STREAM + 1].of_three == pytest.approx(3 / (3 + K1 * (1 - B + B * 16 / 15)))


async def test_a_rare_word_counts_for_more_than_a_common_one(rank: Ranking) -> None:
    common = [Posting(1, 1, number * STREAM) for number in range(10, 30)]
    ranked = await rank([*common, Posting(2, 1, STREAM)], memories=30, having=[0, 0])
    assert max(ranked, key=lambda spot: ranked[spot].mean) == STREAM


async def test_a_neighbour_of_the_words_is_ranked_by_its_distance(rank: Ranking) -> None:
    here = STREAM + 5
    ranked = await rank([Posting(1, 1, here)], memories=10, having=[0])
    assert set(ranked) == {here - 2, here - 1, here, here + 1, here + 2}
    assert ranked[here].mean > ranked[here + 1].mean == ranked[here - 1].mean > ranked[here - 2].mean


async def test_words_on_both_sides_lift_the_turn_between_them(rank: Ranking) -> None:
    around = [Posting(1, 1, STREAM + 1), Posting(2, 1, STREAM + 3)]
    ranked = await rank(around, memories=100, having=[0, 0])
    assert ranked[STREAM + 2].mean > ranked[STREAM].mean


async def test_streams_are_no_neighbours_of_each_other(rank: Ranking) -> None:
    apart = [Posting(1, 1, STREAM + 9), Posting(2, 1, 2 * STREAM + 1)]
    together = [Posting(1, 1, STREAM + 9), Posting(2, 1, STREAM + 10)]
    alone = await rank(apart, memories=50, having=[0, 0])
    beside = await rank(together, memories=50, having=[0, 0])
    assert alone[STREAM + 9].mean < beside[STREAM + 9].mean


async def test_where_not_all_are_listed_their_number_is_believed(rank: Ranking) -> None:
    listed = [Posting(1, 1, STREAM), Posting(2, 1, 2 * STREAM)]
    ranked = await rank(listed, memories=1_000, having=[900, 1])
    assert ranked[2 * STREAM].mean > ranked[STREAM].mean


async def test_a_word_of_which_no_memory_is_listed_counts_among_the_words_asked_for(rank: Ranking) -> None:
    listed = [Posting(1, 1, STREAM)]
    whole = await rank(listed, memories=1_000, having=[1])
    half = await rank(listed, memories=1_000, having=[1, 1])
    assert half[STREAM].turn == pytest.approx(whole[STREAM].turn / 2)


@pytest.mark.parametrize("drawn", range(5))
async def test_scores_stay_between_nothing_and_everything(rank: Ranking, drawn: int) -> None:
    chance = random.Random(drawn)
    lengths = [chance.randint(1, 60) for _ in range(40)]
    postings = [
        Posting(chance.randint(1, 4), chance.randint(1, 5), (place % 3 + 1) * STREAM + place, lengths[place])
        for place in (chance.randrange(40) for _ in range(60))
    ]
    ranked = await rank(postings, memories=40, average=20.0, having=[0] * 4)
    assert all(0 < shares.mean <= 1 for shares in ranked.values())
