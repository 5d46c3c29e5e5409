"""An embedder whose vectors are drawn from the text: no model decides what is near."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from recollect.engine.embedding.models import RemembersNothing, Vectors


class DrawnVectors(RemembersNothing):
    def __init__(self, model: str = "drawn", dimension: int = 64) -> None:
        self.model = model
        self.dimension = dimension

    async def embed(self, texts: Sequence[str]) -> Vectors:
        drawn = [
            np.random.default_rng(crc32(text.encode())).standard_normal(self.dimension) for text in texts
        ]
        rows = np.array(drawn, dtype=np.float32).reshape(len(texts), self.dimension)
        vectors: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return vectors
