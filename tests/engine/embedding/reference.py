"""A BERT encoder's forward pass in NumPy, written from the paper: slow, plain, and nobody's optimiser."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from recollect.engine.embedding.weights import describe, mapped

Numbers = NDArray[np.float64]

_erf = np.vectorize(math.erf, otypes=[np.float64])


class Reference:
    def __init__(self, folder: Path, heads: int) -> None:
        path = folder / "model.safetensors"
        self._weights = {name: np.asarray(mapped(path, name), dtype=np.float64) for name in describe(path)}
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(256)
        self._heads = heads

    def vector(self, text: str) -> Numbers:
        ids = self._tokenizer.encode(text).ids
        x = self._word("word")[ids] + self._word("position")[: len(ids)] + self._word("token_type")[0]
        x = self._even("embeddings.LayerNorm", x)
        layer = 0
        while f"encoder.layer.{layer}.output.dense.weight" in self._weights:
            x = self._layer(f"encoder.layer.{layer}", x)
            layer += 1
        mean: Numbers = x.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def _word(self, kind: str) -> Numbers:
        return self._weights[f"embeddings.{kind}_embeddings.weight"]

    def _layer(self, name: str, x: Numbers) -> Numbers:
        attention = self._dense(f"{name}.attention.output.dense", self._attention(name, x))
        x = self._even(f"{name}.attention.output.LayerNorm", attention + x)
        wide = self._dense(f"{name}.intermediate.dense", x)
        wide = wide * (1 + _erf(wide / math.sqrt(2))) / 2
        return self._even(f"{name}.output.LayerNorm", self._dense(f"{name}.output.dense", wide) + x)

    def _attention(self, name: str, x: Numbers) -> Numbers:
        query, key, value = (
            np.split(self._dense(f"{name}.attention.self.{part}", x), self._heads, axis=1)
            for part in ("query", "key", "value")
        )
        heads = []
        for q, k, v in zip(query, key, value, strict=True):
            scores = np.exp(q @ k.T / math.sqrt(q.shape[1]))
            heads.append(scores / scores.sum(axis=1, keepdims=True) @ v)
        return np.concatenate(heads, axis=1)

    def _dense(self, name: str, x: Numbers) -> Numbers:
        result: Numbers = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return result

    def _even(self, name: str, x: Numbers) -> Numbers:
        apart = x - x.mean(axis=1, keepdims=True)
        even = apart / np.sqrt((apart**2).mean(axis=1, keepdims=True) + 1e-12)
        result: Numbers = even * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return result
