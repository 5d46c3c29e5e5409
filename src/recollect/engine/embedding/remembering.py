"""What stands before every embedder."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from recollect.engine.embedding.models import Embedder, Vectors
from recollect.kit.secret import fingerprint
from recollect.kit.text import is_unicode

# Several times what a model reads of a text, so that a book costs no more than a page.
MAX_CHARACTERS = 8_192
CAPACITY = 2_048


class RememberingEmbedder:
    """Cuts texts that are too long, and does not embed again what it embedded lately.

    It remembers vectors by a digest, so that no text stays here that was erased elsewhere.
    """

    def __init__(self, inner: Embedder, capacity: int = CAPACITY) -> None:
        self._inner = inner
        self._capacity = capacity
        self._vectors: OrderedDict[bytes, Vectors] = OrderedDict()

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    async def embed(self, texts: Sequence[str]) -> Vectors:
        read = [_readable(text) for text in texts]
        digests = list(map(_digest, read))
        # Held apart from what is remembered, which others may push out meanwhile.
        found = {digest: self._vectors[digest] for digest in digests if digest in self._vectors}
        missing = {digest: text for digest, text in zip(digests, read, strict=True) if digest not in found}
        if missing:
            fresh = await self._inner.embed(list(missing.values()))
            # Copies: a row alone would keep the whole batch in memory.
            found |= {digest: row.copy() for digest, row in zip(missing, fresh, strict=True)}
        self._remember(found)
        if not found:
            return np.empty((0, self.dimension), dtype=np.float32)
        return np.stack([found[digest] for digest in digests])

    def remembered(self, texts: Sequence[str]) -> Vectors | None:
        found = [self._vectors.get(_digest(_readable(text))) for text in texts]
        known = [vector for vector in found if vector is not None]
        return np.stack(known) if known and len(known) == len(texts) else None

    def _remember(self, found: dict[bytes, Vectors]) -> None:
        for digest, vector in found.items():
            self._vectors[digest] = vector
            self._vectors.move_to_end(digest)
        while len(self._vectors) > self._capacity:
            self._vectors.popitem(last=False)


def _digest(text: str) -> bytes:
    return fingerprint(text.encode())


def _readable(text: str) -> str:
    cut = text[:MAX_CHARACTERS]
    # Half of a surrogate pair is no text to any tokenizer.
    return cut if is_unicode(cut) else cut.encode(errors="replace").decode()
