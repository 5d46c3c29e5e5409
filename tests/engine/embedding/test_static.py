"""The table of words needs no model, no network, and nothing of its package but two files."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from recollect.engine.embedding.static import StaticEmbedder

pytestmark = pytest.mark.anyio


async def test_it_computes_what_its_package_defines() -> None:
    # What WordLlama 0.4 itself gives for this text, with norm=True.
    expected = [0.046729, 0.033832, -0.076024, -0.066386, -0.089660, -0.144928]

    [vector] = await StaticEmbedder().embed(["Ana prefers tea to coffee."])

    assert vector[: len(expected)] == pytest.approx(expected, abs=1e-5)


async def test_every_text_has_a_direction() -> None:
    texts = ["", " ", "Ana prefers tea.", "Éléonore", "🚀", "東京", "<unk>", "word " * 3_000]

    vectors = await StaticEmbedder().embed(texts * 20)

    assert vectors.shape == (160, StaticEmbedder.dimension)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert (await StaticEmbedder().embed([])).shape == (0, StaticEmbedder.dimension)


async def test_what_shares_its_subject_is_nearer_than_what_does_not() -> None:
    dog, pet, shares = await StaticEmbedder().embed(
        ["I have a dog", "my pet is a labrador", "shares fell on Monday"]
    )

    assert dog @ pet > dog @ shares + 0.2


def test_neither_the_package_nor_a_hub_is_imported() -> None:
    program = (
        "import asyncio, sys\n"
        "from recollect.engine.embedding.static import StaticEmbedder\n"
        "asyncio.run(StaticEmbedder().embed(['text']))\n"
        "print({'wordllama', 'requests', 'huggingface_hub', 'onnx', 'onnxruntime'} & set(sys.modules))"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "set()"
