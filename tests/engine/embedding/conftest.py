"""The pulled model, where there is one, and an index that holds a tiny one."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from recollect.engine.embedding.encoder import SentenceEncoder
from recollect.engine.embedding.graph import build
from recollect.engine.embedding.pulled import GRAPH, MINILM, WEIGHTS
from recollect.engine.embedding.pulling import PullFailed, pull
from recollect.settings import Settings


@pytest.fixture(scope="session")
async def minilm_folder(anyio_backend: str) -> Path:
    """As ``make test`` leaves it; pulled now if need be."""
    models_dir = Settings(_env_file=None).models_dir
    try:
        await pull(MINILM, models_dir)
    except PullFailed as error:
        pytest.skip(error.detail)
    return MINILM.folder(models_dir)


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    """With a graph built by the code as it is, whenever the model was pulled."""
    folder = tmp_path_factory.mktemp("minilm")
    for name in MINILM.files:
        shutil.copy(minilm_folder / name, folder / name)
    (folder / GRAPH).write_bytes(build(folder / WEIGHTS, MINILM.heads))
    return SentenceEncoder(MINILM.name, MINILM.dimension, folder)


@pytest.fixture
async def http(anyio_backend: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as client:
        yield client


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all the package index that pip and uv know in this test."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return folder
