"""Which embedder a deployment gets, and that the choice can be seen in what it records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from recollect.engine.embedding.choose import open_embedder
from recollect.engine.embedding.models import EmbeddingFailed
from recollect.engine.embedding.pulled import GRAPH, MINILM
from recollect.errors import Misconfigured
from recollect.settings import Settings

pytestmark = pytest.mark.anyio

ENDPOINT = {"embedding_url": "http://127.0.0.1:9/v1", "embedding_model": "nomic-embed-text"}


def settings(models_dir: Path, **given: Any) -> Settings:
    return Settings(models_dir=models_dir, _env_file=None, **given)


@pytest.fixture
def pulled(tmp_path: Path) -> Path:
    """Where something was pulled to, as far as one can see from outside."""
    folder = MINILM.folder(tmp_path)
    folder.mkdir()
    (folder / GRAPH).touch()
    return tmp_path


async def test_without_anything_there_are_still_vectors(http: httpx.AsyncClient, tmp_path: Path) -> None:
    embedder = open_embedder(settings(tmp_path / "missing"), http)

    assert embedder.model == "wordllama-l2-supercat-256"
    assert (await embedder.embed(["tea"])).shape == (1, embedder.dimension)


async def test_the_pulled_model_is_taken_where_it_is(http: httpx.AsyncClient, minilm_folder: Path) -> None:
    for choice in ("auto", "minilm"):
        embedder = open_embedder(settings(minilm_folder.parent, embedding=choice), http)

        assert (embedder.model, embedder.dimension) == ("all-MiniLM-L6-v2", 384)
        assert (await embedder.embed(["tea"])).shape == (1, 384)


def test_an_endpoint_comes_first_and_words_alone_can_be_had(http: httpx.AsyncClient, pulled: Path) -> None:
    def model(**given: Any) -> str:
        return open_embedder(settings(pulled, **given), http).model

    assert model() == "all-MiniLM-L6-v2"
    assert model(**ENDPOINT) == "openai:nomic-embed-text"
    assert model(**ENDPOINT, embedding_dimension=256) == "openai:nomic-embed-text@256"
    assert model(**ENDPOINT, embedding="endpoint") == "openai:nomic-embed-text"
    assert model(**ENDPOINT, embedding="static") == "wordllama-l2-supercat-256"
    assert model(**ENDPOINT, embedding="minilm") == "all-MiniLM-L6-v2"


def test_a_choice_that_is_not_there_says_what_is_missing(http: httpx.AsyncClient, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="recollect models pull"):
        open_embedder(settings(tmp_path, embedding="minilm"), http)
    for half in ({"embedding": "endpoint"}, {"embedding_url": ENDPOINT["embedding_url"]}):
        with pytest.raises(Misconfigured, match=r"RECOLLECT_EMBEDDING_URL.*RECOLLECT_EMBEDDING_MODEL"):
            open_embedder(settings(tmp_path, **half), http)


async def test_a_damaged_model_is_found_with_the_first_text(http: httpx.AsyncClient, pulled: Path) -> None:
    with pytest.raises(EmbeddingFailed, match="--force"):
        await open_embedder(settings(pulled), http).embed(["tea"])
