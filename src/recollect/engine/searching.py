"""A search: one statement, as soon as the query's meaning is known."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from recollect.db.tenancy import Transaction
from recollect.engine.embedding.models import Embedder, EmbeddingFailed
from recollect.engine.language import query_terms
from recollect.engine.models import MAX_FOUND, Found, Wanted
from recollect.engine.store import Vector, embedded, queries, scope_parameters
from recollect.errors import InvalidInput
from recollect.kit.logs import logger

log = logger("engine")

# Up to here a scope's memories are read one by one; beyond, the index of words is asked.
FEW = 2_000
# Up to here the meaning of every memory in scope is compared; beyond, a tenant's own index is asked.
EXACT = 20_000
# A scope beyond FEW hardly changes in a minute, and counting it takes longer than searching it.
SIZE_IS_GOOD_FOR = 60.0
SIZES_KEPT = 10_000
# What similarity counts beside words, which count 1; measured with `make bench-retrieval`.
SENTENCE_ENCODER_WEIGHS = 0.5
WORD_TABLE_WEIGHS = 0.25
MAX_QUERY = 10_000

_FOUND = TypeAdapter(list[Found])


def check_search(wanted: Wanted) -> None:
    """An error for what no engine can look for."""
    if not wanted.query.strip():
        raise InvalidInput("query: say what to look for.")
    if len(wanted.query) > MAX_QUERY:
        raise InvalidInput(f"query: at most {MAX_QUERY:,} characters.")
    if not 1 <= wanted.limit <= MAX_FOUND:
        raise InvalidInput(f"limit: between 1 and {MAX_FOUND:,}.")


class Search:
    def __init__(self, embedder: Embedder, meaning_weighs: float) -> None:
        self._embedder = embedder
        self._meaning_weighs = meaning_weighs
        self._sizes: OrderedDict[tuple[str, ...], tuple[float, int]] = OrderedDict()

    async def find(self, tx: Transaction, wanted: Wanted) -> list[Found]:
        vector = await self._meaning(tx, wanted.query)
        scope = scope_parameters(wanted.where)
        parameters = {
            **scope,
            **_forms(wanted.query),
            "model": self._embedder.model,
            "vector": vector,
            "few": FEW,
            "exact": EXACT,
            "size": self._known_size(tx, scope),
            "meaning": 0.0 if vector is None else self._meaning_weighs,
            "recency": wanted.recency,
            "half_life": wanted.half_life,
            "importance": wanted.importance,
            "threshold": wanted.threshold,
            "limit": wanted.limit,
            "explain": wanted.explain,
        }
        async with tx.still_open() as reading:
            rows = await reading.all(queries.find, parameters, last=True)
        if rows and rows[0]["among"] is not None:
            self._keep_size(tx, scope, rows[0]["among"])
        return _FOUND.validate_python(rows)

    def _known_size(self, tx: Transaction, scope: Mapping[str, Any]) -> int | None:
        counted = self._sizes.get(_key(tx, scope)) if self._sizes else None
        if counted is None or time.monotonic() - counted[0] > SIZE_IS_GOOD_FOR:
            return None
        return counted[1]

    def _keep_size(self, tx: Transaction, scope: Mapping[str, Any], size: int) -> None:
        if self._known_size(tx, scope) is None:
            key = _key(tx, scope)
            self._sizes[key] = (time.monotonic(), size)
            self._sizes.move_to_end(key)
            while len(self._sizes) > SIZES_KEPT:
                self._sizes.popitem(last=False)

    async def _meaning(self, tx: Transaction, query: str) -> Vector | None:
        try:
            vectors = await embedded(tx, self._embedder, [query])
        except EmbeddingFailed as error:
            # Words still find most; nothing is written on the strength of it.
            log.warning("searching by words alone", reason=error.code)
            return None
        return Vector(vectors[0])


def _key(tx: Transaction, scope: Mapping[str, Any]) -> tuple[str, ...]:
    """Who looks, and among what."""
    return str(tx.caller.credential), *(str(getattr(each, "obj", each)) for each in scope.values())


def _forms(query: str) -> dict[str, str]:
    """Every form of every word asked for, and the number of its word, from 1."""
    words = {form: number for number, forms in enumerate(query_terms(query), 1) for form in forms}
    # Neither can hold what would need quoting, and the driver would look at each for some.
    return {"forms": " ".join(words), "of_words": f"{{{','.join(map(str, words.values()))}}}"}
