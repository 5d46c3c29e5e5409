"""A pulled model at work: ONNX Runtime on the processor, beside the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from recollect.engine.embedding.models import EmbeddingFailed, RemembersNothing, Vectors
from recollect.engine.embedding.pulled import GRAPH, TOKENIZER

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

A = TypeVar("A")
R = TypeVar("R")

# The runtime's official builds report their use to its maker, unless this is said before they are loaded.
# A test looks whether it is still the right word.
os.putenv("ORT_DISABLE_TELEMETRY", "1")

MAX_TOKENS = 256
# One for a question while the other is busy with an import; more would only take turns with the rest.
THREADS = 2
# Larger runs gain nothing, and whoever comes next waits for the one that is under way.
TOKENS_PER_RUN = 1_024
TEXTS_TO_TOKENISE = 256


class SentenceEncoder(RemembersNothing):
    """Opens at once; the model is loaded with the first text, since most commands embed none."""

    def __init__(self, model: str, dimension: int, folder: Path) -> None:
        self.model = model
        self.dimension = dimension
        self._folder = folder
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="embedding")

    async def embed(self, texts: Sequence[str]) -> Vectors:
        tokens: list[list[int]] = []
        for begin in range(0, len(texts), TEXTS_TO_TOKENISE):
            tokens += await self._beside(self._tokenise, texts[begin : begin + TEXTS_TO_TOKENISE])
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for run in runs([len(each) for each in tokens], TOKENS_PER_RUN):
            vectors[run] = await self._beside(self._encode, [tokens[number] for number in run])
        return vectors

    async def _beside(self, work: Callable[[A], R], on: A) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, on)

    def _tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        tokenizer, _ = self._loaded
        # One by one: for a batch the library starts threads of its own.
        return [tokenizer.encode(text).ids for text in texts]

    def _encode(self, tokens: list[list[int]]) -> Vectors:
        ids = np.zeros((len(tokens), max(map(len, tokens))), dtype=np.int32)
        mask = np.zeros_like(ids)
        for row, each in enumerate(tokens):
            ids[row, : len(each)] = each
            mask[row, : len(each)] = 1
        _, session = self._loaded
        vectors: Vectors = session.run(["vectors"], {"input_ids": ids, "mask": mask})[0]
        return vectors

    @cached_property
    def _loaded(self) -> tuple[Tokenizer, InferenceSession]:
        try:
            return _tokenizer(self._folder / TOKENIZER), _session(self._folder / GRAPH)
        except Exception as error:  # both libraries raise nothing more specific
            raise EmbeddingFailed(
                f"The model in {self._folder} cannot be loaded; fetch it anew with "
                '"recollect models pull --force".'
            ) from error


def runs(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Which texts go together: of like length, since all of a run are padded to its longest."""
    found: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if found and (len(found[-1]) + 1) * lengths[number] <= budget:
            found[-1].append(number)
        else:
            found.append([number])
    return found


# What takes a while to import is imported when it is needed.


def _tokenizer(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer  # noqa: PLC0415 - see above

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _session(path: Path) -> InferenceSession:
    from onnxruntime import InferenceSession, SessionOptions  # noqa: PLC0415 - see above

    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Its arena would keep what the largest run ever took; without one it is as fast.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 4  # what goes wrong is raised, and need not be printed as well
    return InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
