"""BM25 as the books have it, and windows of neighbours on top."""

from __future__ import annotations

import math
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.engine.ranking import K1, B, Posting, Scope, rank

FIRST, SECOND = UUID(int=1), UUID(int=2)


def test_alone_a_memory_has_the_score_of_the_formula() -> None:
    """One word of two, in one of four memories, twice among six words, five on average."""
    postings = [Posting(0, 2, FIRST, None, None, 6), Posting(1, 1, SECOND, None, None, 5)]
    ranked = rank(postings, Scope(memories=4, words=20), words=2, found_in={}, best=10)
    weight = math.log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    saturated = 2 * (K1 + 1) / (2 + K1 * (1 - B + B * 6 / 5))
    assert ranked.windows[FIRST][0] == pytest.approx(weight * saturated / (2 * weight * (K1 + 1)))


def test_a_rare_word_counts_for_more_than_a_common_one() -> None:
    common = [Posting(0, 1, UUID(int=number), None, None, 5) for number in range(10, 30)]
    ranked = rank(
        [*common, Posting(1, 1, FIRST, None, None, 5)], Scope(memories=30, words=150), 2, {}, best=50
    )
    assert max(ranked.memories, key=lambda each: ranked.memories[each]) == FIRST


def test_a_neighbour_of_the_words_is_a_candidate_by_its_place() -> None:
    ranked = rank([Posting(0, 1, FIRST, 7, 5, 5)], Scope(memories=10, words=50), 1, {}, best=10)
    assert set(ranked.places) == {(7, 3), (7, 4), (7, 6), (7, 7)}
    assert ranked.memories[FIRST] > ranked.places[7, 4] == ranked.places[7, 6] > ranked.places[7, 3]


def test_words_on_both_sides_lift_the_turn_between_them() -> None:
    around = [Posting(0, 1, FIRST, 7, 1, 5), Posting(1, 1, SECOND, 7, 3, 5)]
    ranked = rank(around, Scope(memories=100, words=500), 2, {}, best=10)
    assert ranked.places[7, 2] > ranked.places[7, 0]


def test_streams_are_no_neighbours_of_each_other() -> None:
    apart = [Posting(0, 1, FIRST, 1, 9, 5), Posting(1, 1, SECOND, 2, 1, 5)]
    together = [Posting(0, 1, FIRST, 1, 9, 5), Posting(1, 1, SECOND, 1, 10, 5)]
    scope = Scope(memories=50, words=250)
    alone, beside = rank(apart, scope, 2, {}, 20), rank(together, scope, 2, {}, 20)
    assert alone.memories[FIRST] < beside.memories[FIRST]


def test_where_not_all_are_listed_their_number_is_believed() -> None:
    listed = [Posting(0, 1, FIRST, None, None, 5), Posting(1, 1, SECOND, None, None, 5)]
    scope = Scope(memories=1000, words=5000)
    ranked = rank(listed, scope, 2, {0: 900, 1: 1}, best=10)
    assert ranked.memories[SECOND] > ranked.memories[FIRST]


postings = st.lists(
    st.builds(
        Posting,
        word=st.integers(0, 3),
        times=st.integers(1, 5),
        memory_id=st.integers(1, 40).map(lambda number: UUID(int=number)),
        stream=st.integers(1, 3),
        place=st.just(0),
        length=st.integers(1, 60),
    ),
    max_size=40,
)


@given(postings)
def test_scores_stay_between_nothing_and_everything(found: list[Posting]) -> None:
    # A memory has one place, whichever of its words is looked at.
    placed = [
        Posting(
            each.word, each.times, each.memory_id, each.memory_id.int % 3, each.memory_id.int, each.length
        )
        for each in found
    ]
    ranked = rank(placed, Scope(memories=40, words=800), 4, {}, best=100)
    for score in (*ranked.memories.values(), *ranked.places.values()):
        assert 0 < score <= 1
