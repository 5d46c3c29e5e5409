"""A search: the words are counted first, then the query's meaning is found out, and both are weighed."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from recollect.db.tenancy import Transaction
from recollect.engine.embedding.models import Embedder, EmbeddingFailed
from recollect.engine.language import query_terms
from recollect.engine.models import MAX_FOUND, Breakdown, Found, Wanted
from recollect.engine.ranking import Posting, Ranked, Scope, rank
from recollect.engine.store import memory_from, queries, scope_parameters, vector_text
from recollect.errors import InvalidInput
from recollect.kit.logs import logger

log = logger("engine")

# Up to here a scope's memories are read one by one; beyond, the index of words is asked.
FEW = 2_000
# Up to here the meaning of every memory in scope is compared; beyond, a tenant's own index is asked.
EXACT = 20_000
# How many candidates each way of finding brings. Of a scope with more, only these are weighed.
BEST = 200
BEST_BY_WORDS = 1_000
# A scope beyond FEW hardly changes in a minute, and counting it takes longer than searching it.
SIZE_IS_GOOD_FOR = 60.0
SIZES_KEPT = 10_000
# What similarity counts beside words, which count 1; measured with `make bench-retrieval`.
SENTENCE_ENCODER_WEIGHS = 0.5
WORD_TABLE_WEIGHS = 0.25
MAX_QUERY = 10_000


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
        self._sizes: OrderedDict[tuple[Any, ...], tuple[float, int]] = OrderedDict()

    async def find(self, tx: Transaction, wanted: Wanted) -> list[Found]:
        scope = scope_parameters(wanted.where)
        terms = query_terms(wanted.query)
        best = max(BEST, 2 * wanted.limit)
        size, by_words = await self._by_words(tx, scope, terms, best)
        if not size:
            return []
        vector = await self._meaning(wanted.query)
        parameters = {
            **scope,
            **_candidates(by_words),
            "model": self._embedder.model,
            "vector": vector,
            "by_index": vector is not None and size > EXACT,
            "best": best if vector is not None else 0,
            "lexical": 1.0 if by_words.memories else 0.0,
            "meaning": self._meaning_weighs if vector is not None else 0.0,
            "recency": wanted.recency,
            "half_life": wanted.half_life,
            "importance": wanted.importance,
            "threshold": wanted.threshold,
            "limit": wanted.limit,
        }
        async with tx.still_open() as reading:
            rows = await reading.all(queries.find, parameters, last=True)
        return _found(rows, by_words, explain=wanted.explain)

    async def _by_words(
        self, tx: Transaction, scope: dict[str, Any], terms: Sequence[tuple[str, ...]], best: int
    ) -> tuple[int, Ranked]:
        forms = {form: number for number, each in enumerate(terms) for form in each}
        key = (str(tx.caller.credential), *(str(getattr(each, "obj", each)) for each in scope.values()))
        asked = {**scope, "words": list(forms), "few": FEW, "best": max(BEST_BY_WORDS, best)}
        known_size = self._known_size(key)
        rows: Sequence[dict[str, Any]] = ()
        if known_size is None:
            rows = await tx.all(queries.words_in_few, asked, last=True)
        if known_size is not None or _total(rows).memories > FEW:
            if rows:
                await tx.finish()
            async with tx.still_open() as again:
                asked |= {"known_size": known_size}
                rows = await again.all(queries.words_in_many, asked, last=True)
            self._keep_size(key, _total(rows).memories)
        # Nothing may be held while the meaning is found out, which can take another server.
        await tx.finish()
        total = _total(rows)
        return total.memories, _ranked(rows, list(forms.values()), total, words=len(terms), best=best)

    def _known_size(self, key: tuple[Any, ...]) -> int | None:
        counted = self._sizes.get(key)
        if counted is None or time.monotonic() - counted[0] > SIZE_IS_GOOD_FOR:
            return None
        return counted[1]

    def _keep_size(self, key: tuple[Any, ...], size: int) -> None:
        if self._known_size(key) is None:
            self._sizes[key] = (time.monotonic(), size)
            self._sizes.move_to_end(key)
            while len(self._sizes) > SIZES_KEPT:
                self._sizes.popitem(last=False)

    async def _meaning(self, query: str) -> str | None:
        try:
            vectors = await self._embedder.embed([query])
        except EmbeddingFailed as error:
            # Words still find most; nothing is written on the strength of it.
            log.warning("searching by words alone", reason=error.code)
            return None
        return vector_text(vectors[0])


def _total(rows: Sequence[dict[str, Any]]) -> Scope:
    first = next(row for row in rows if row["word"] is None)
    return Scope(first["times"], first["length"] or 0)


def _ranked(
    rows: Sequence[dict[str, Any]], numbers: Sequence[int], total: Scope, *, words: int, best: int
) -> Ranked:
    postings: list[Posting] = []
    found_in: dict[int, int] = {}
    for row in rows:
        if row["word"] is None:
            continue
        number = numbers[row["word"] - 1]
        if row["memory_id"] is None:
            found_in[number] = found_in.get(number, 0) - row["times"]
        else:
            where = row["memory_id"], row["stream"], row["place"], row["length"]
            postings.append(Posting(number, row["times"], *where))
    return rank(postings, total, words, found_in, best)


def _candidates(by_words: Ranked) -> dict[str, Any]:
    memories, places = by_words.memories, by_words.places
    return {
        "ids": _array(memories),
        "id_scores": _array(memories.values()),
        "streams": _array(stream for stream, _ in places),
        "places": _array(place for _, place in places),
        "place_scores": _array(places.values()),
    }


def _array(items: Iterable[object]) -> str:
    # Numbers and ids need no quotes; the driver would look at each of them for some.
    return "{" + ",".join(map(str, items)) + "}"


def _found(rows: Sequence[dict[str, Any]], by_words: Ranked, *, explain: bool) -> list[Found]:
    return [
        memory_from(row, Found, score=row["score"], breakdown=_breakdown(row, by_words) if explain else None)
        for row in rows
    ]


def _breakdown(row: dict[str, Any], by_words: Ranked) -> Breakdown:
    windows = by_words.windows
    parts = windows.get(row["id"]) or windows.get((row["stream"], row["position"])) or (0.0, 0.0, 0.0)
    alone, three, five = parts
    return Breakdown(
        lexical=row["lexical"],
        turn=alone,
        window_of_three=three,
        window_of_five=five,
        meaning=row["similarity"],
        recency=row["recency"],
        importance=row["importance"],
    )
