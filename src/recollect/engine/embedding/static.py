"""A table of word vectors that comes with an installed package: less than a model, and always there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recollect.engine.embedding.models import EmbeddingFailed, RemembersNothing, Vectors
from recollect.engine.embedding.weights import mapped

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
TEXTS_AT_A_TIME = 64
UNKNOWN = 0  # the id of <unk>


class StaticEmbedder(RemembersNothing):
    """The mean of a text's token vectors, as WordLlama defines it.

    Only the package's files are used. Its code brings an HTTP client and compiled helpers for other purposes,
    and takes most of a second to import.
    """

    model = "wordllama-l2-supercat-256"
    dimension = 256

    async def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for begin in range(0, len(texts), TEXTS_AT_A_TIME):
            some = texts[begin : begin + TEXTS_AT_A_TIME]
            vectors[begin : begin + len(some)] = await asyncio.to_thread(self._means, some)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _means(self, texts: Sequence[str]) -> Vectors:
        tokenizer, table = self._loaded
        # A text without a token still needs a direction.
        ids = [tokenizer.encode(text, add_special_tokens=False).ids or [UNKNOWN] for text in texts]
        return np.stack([table[each].mean(axis=0, dtype=np.float32) for each in ids])

    @cached_property
    def _loaded(self) -> tuple[Tokenizer, NDArray[Any]]:
        # With the first text: most commands need neither.
        from tokenizers import Tokenizer  # noqa: PLC0415 - see above

        package = find_spec("wordllama")
        if package is None or package.origin is None:
            raise EmbeddingFailed("The package wordllama is not installed; install Recollect anew.")
        folder = Path(package.origin).parent
        return Tokenizer.from_file(str(folder / TOKENIZER)), mapped(folder / WEIGHTS, "embedding.weight")
