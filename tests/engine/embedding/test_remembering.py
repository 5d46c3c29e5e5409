"""Before every embedder: long texts are cut, and what was embedded lately is remembered."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from recollect.engine.embedding.models import EmbeddingFailed, Vectors
from recollect.engine.embedding.remembering import MAX_CHARACTERS, RememberingEmbedder
from recollect.engine.embedding.static import StaticEmbedder

pytestmark = pytest.mark.anyio


class Counting(StaticEmbedder):
    """The real table, which notes what it was asked and can be told to fail."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if self.fails:
            raise EmbeddingFailed
        self.asked += texts
        return await super().embed(texts)


async def test_a_text_is_embedded_once() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner)

    first = await embedder.embed(["tea", "coffee", "tea"])
    second = await embedder.embed(["coffee", "milk", "tea"])

    assert inner.asked == ["tea", "coffee", "milk"]
    assert np.array_equal(first, first[[0, 1, 0]])
    assert np.array_equal(second[[0, 2]], first[[1, 0]])
    assert np.array_equal(second, await StaticEmbedder().embed(["coffee", "milk", "tea"]))
    assert (embedder.model, embedder.dimension) == (inner.model, inner.dimension)
    assert (await embedder.embed([])).shape == (0, inner.dimension)


async def test_it_says_what_it_has_ready_only_if_that_is_all() -> None:
    embedder = RememberingEmbedder(Counting())
    vectors = await embedder.embed(["one", "two"])
    ready = embedder.remembered(["two", "one"])
    assert ready is not None
    assert np.array_equal(ready, vectors[::-1])
    assert embedder.remembered(["one", "three"]) is None


async def test_it_remembers_a_bounded_number_the_latest_ones() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner, capacity=2)

    for text in ("tea", "coffee", "tea", "milk"):
        await embedder.embed([text])
    await embedder.embed(["tea", "milk", "coffee"])

    assert inner.asked == ["tea", "coffee", "milk", "coffee"]


async def test_more_texts_than_it_remembers_are_all_embedded() -> None:
    texts = [f"text {number}" for number in range(50)]

    vectors = await RememberingEmbedder(Counting(), capacity=3).embed(texts)

    assert np.array_equal(vectors, await StaticEmbedder().embed(texts))


async def test_what_a_caller_does_to_a_vector_stays_with_the_caller() -> None:
    embedder = RememberingEmbedder(Counting())
    given = await embedder.embed(["tea"])
    kept = given.copy()
    given[:] = 0

    assert np.array_equal(await embedder.embed(["tea"]), kept)


async def test_a_failure_is_not_remembered() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner)
    inner.fails = True
    with pytest.raises(EmbeddingFailed):
        await embedder.embed(["tea"])
    inner.fails = False

    assert len(await embedder.embed(["tea"])) == 1


async def test_what_is_too_long_or_no_text_is_made_readable() -> None:
    inner = Counting()

    await RememberingEmbedder(inner).embed(["word " * 1_000_000, "half \ud83d of a pair"])

    assert inner.asked == [("word " * MAX_CHARACTERS)[:MAX_CHARACTERS], "half ? of a pair"]
