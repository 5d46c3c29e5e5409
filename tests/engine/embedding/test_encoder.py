"""The sentence encoder computes what the published model computes, quickly and beside the event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from recollect.engine.embedding.encoder import MAX_TOKENS, TOKENS_PER_RUN, SentenceEncoder, runs
from recollect.engine.embedding.models import EmbeddingFailed
from recollect.engine.embedding.pulled import MINILM
from tests.cli.conftest import run_command
from tests.engine.embedding.reference import Reference

pytestmark = pytest.mark.anyio

TEXTS = [
    "",
    " \n\t",
    "Ana prefers tea to coffee.",
    "Éléonore déjeune à Besançon avec son frère aîné.",
    "Ship it 🚀🎉 before Friday 😅",
    "東京は日本の首都です。",
    "[SEP] [CLS] ## not a token",
    "The contract says what happens if the supplier is late, and by how much. " * 40,
    "x" * 5_000,
]


async def test_it_agrees_with_a_plain_forward_pass(minilm: SentenceEncoder, minilm_folder: Path) -> None:
    reference = Reference(minilm_folder, MINILM.heads)

    together = await minilm.embed(TEXTS)

    assert together.shape == (len(TEXTS), MINILM.dimension)
    assert together.dtype == np.float32
    for text, vector in zip(TEXTS, together, strict=True):
        assert vector @ vector == pytest.approx(1, abs=1e-5)
        assert vector == pytest.approx(reference.vector(text), abs=1e-5), text[:40]


async def test_a_text_has_the_same_vector_in_any_company(minilm: SentenceEncoder) -> None:
    together = await minilm.embed(TEXTS * 5)
    alone = np.concatenate([await minilm.embed([text]) for text in TEXTS])

    assert (together * np.tile(alone, (5, 1))).sum(axis=1) == pytest.approx(1, abs=1e-5)


async def test_what_means_the_same_is_nearer_than_what_does_not(minilm: SentenceEncoder) -> None:
    question, same, other = await minilm.embed(
        ["Where does she live?", "Her home is in Lisbon.", "The invoice is due in May."]
    )

    assert question @ same > question @ other + 0.2


async def test_nothing_gives_no_vectors(minilm: SentenceEncoder) -> None:
    assert (await minilm.embed([])).shape == (0, MINILM.dimension)


async def test_the_event_loop_goes_on_meanwhile(minilm: SentenceEncoder) -> None:
    embedding = asyncio.create_task(minilm.embed(["One of many texts, and not a short one."] * 64))
    turns = 0
    while not embedding.done():
        await asyncio.sleep(0)
        turns += 1

    # Each step of the work hands over two or three times; a loop that is free turns as often as it likes.
    assert turns > 100


async def test_a_model_that_is_damaged_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingFailed, match="recollect models pull --force"):
        await SentenceEncoder("any", 3, tmp_path).embed(["text"])


async def test_the_runtime_reports_nothing_to_anybody(minilm_folder: Path, tmp_path: Path) -> None:
    """It would keep an identifier of this machine, and what it has to report, in a cache of its own."""
    where = {"RECOLLECT_MODELS_DIR": str(minilm_folder.parent), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = tmp_path / "home"
    home.mkdir()

    checked = (await run_command(where, home, "models", "check", "--json")).json

    assert checked["model"] == MINILM.name
    assert [*tmp_path.rglob("*")] == [home]


def test_texts_of_like_length_share_a_run_within_the_budget() -> None:
    lengths = [MAX_TOKENS, 3, 4, 200, 3, MAX_TOKENS, 5, MAX_TOKENS, MAX_TOKENS, MAX_TOKENS]

    found = runs(lengths, TOKENS_PER_RUN)

    assert sorted(number for run in found for number in run) == list(range(len(lengths)))
    assert found[0] == [1, 4, 2, 6, 3]
    assert all(len(run) * max(lengths[number] for number in run) <= TOKENS_PER_RUN for run in found)
    assert runs([MAX_TOKENS], 1) == [[0]]
    assert runs([], TOKENS_PER_RUN) == []
