"""What an embedder is, whoever does the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.errors import RecollectError

Vectors = NDArray[np.float32]


class EmbeddingFailed(RecollectError):
    """The text could not be turned into a vector."""

    code, status = "embedding_failed", 502


class Embedder(Protocol):
    @property
    def model(self) -> str:
        """Stable, and recorded with each vector: vectors of different models are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """0 for an endpoint that has answered nothing yet, and was not told how long its vectors are."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of unit length for each text, or EmbeddingFailed."""
        ...

    def remembered(self, texts: Sequence[str]) -> Vectors | None:
        """The same if it takes no work, else None."""
        ...


class RemembersNothing:
    def remembered(self, texts: Sequence[str]) -> Vectors | None:
        del texts
        return None
