"""Embeddings from a server that speaks OpenAI's protocol: OpenAI, Ollama, vLLM, llama.cpp."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np

from recollect.engine.embedding.models import EmbeddingFailed, RemembersNothing, Vectors

TEXTS_PER_REQUEST = 32
# A vector of 4,096 numbers takes about 90 kB as JSON.
MAX_BYTES = TEXTS_PER_REQUEST * 400_000
DEADLINE_SECONDS = 30.0
ATTEMPTS = 3
PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
REFUSED = frozenset({401, 403})
NOT_VECTORS = "The embedding endpoint's answer is not one vector for each text."


class EndpointEmbedder(RemembersNothing):
    """``dimension`` is asked of models that can shorten their vectors; without it they are as they come."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        url: str,
        name: str,
        key: str | None,
        dimension: int | None,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self.model = f"openai:{name}@{dimension}" if dimension else f"openai:{name}"
        self.dimension = dimension or 0
        self._http = http
        self._url = f"{url.rstrip('/').removesuffix('/embeddings')}/embeddings"
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._fixed: dict[str, Any] = {"model": name, "encoding_format": "float"}
        if dimension:
            self._fixed["dimensions"] = dimension
        self._deadline = deadline_seconds
        self._pause = pause_seconds

    async def embed(self, texts: Sequence[str]) -> Vectors:
        parts = [
            await self._embed_some(texts[begin : begin + TEXTS_PER_REQUEST])
            for begin in range(0, len(texts), TEXTS_PER_REQUEST)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.dimension), dtype=np.float32)

    async def _embed_some(self, texts: Sequence[str]) -> Vectors:
        # Some servers refuse a text that is empty, and a space says as little.
        asked = {**self._fixed, "input": [text or " " for text in texts]}
        try:
            async with asyncio.timeout(self._deadline):
                answer = await self._ask(asked)
        except TimeoutError as error:
            raise EmbeddingFailed(
                f"The embedding endpoint did not answer within {self._deadline:g} seconds."
            ) from error
        vectors = _vectors(answer, len(texts))
        self._check_dimension(vectors.shape[1])
        return vectors

    def _check_dimension(self, given: int) -> None:
        if self.dimension == 0:
            self.dimension = given
        if given != self.dimension:
            raise EmbeddingFailed(
                f"The embedding endpoint gave vectors of {given} numbers instead of {self.dimension}; "
                "set RECOLLECT_EMBEDDING_DIMENSION and RECOLLECT_EMBEDDING_MODEL to what it serves."
            )

    async def _ask(self, asked: dict[str, Any]) -> bytes:
        """Again where that may help; the caller sees to it that it ends."""
        attempt = 1
        while True:
            wait = None
            try:
                status, body, wait = await self._exchange(asked)
            except httpx.HTTPError as error:
                if attempt == ATTEMPTS:
                    raise EmbeddingFailed(
                        f"The embedding endpoint cannot be reached ({type(error).__name__})."
                    ) from error
            else:
                if status == 200:
                    return body
                if status not in PASSING or attempt == ATTEMPTS:
                    raise EmbeddingFailed(_refusal(status, body))
            pause = self._pause * 2 ** (attempt - 1) if wait is None else wait
            await asyncio.sleep(min(pause, LONGEST_PAUSE_SECONDS))
            attempt += 1

    async def _exchange(self, asked: dict[str, Any]) -> tuple[int, bytes, float | None]:
        # No timeout of the client's own: it begins anew with every byte, and the deadline is for the whole.
        async with self._http.stream(
            "POST", self._url, json=asked, headers=self._headers, timeout=None
        ) as answer:
            body = bytearray()
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > MAX_BYTES:
                    raise EmbeddingFailed("The embedding endpoint's answer is too long to be one.")
            return answer.status_code, bytes(body), _seconds(answer.headers.get("Retry-After"))


def _seconds(said: str | None) -> float | None:
    return float(said) if said and said.isdecimal() and len(said) < 6 else None


def _refusal(status: int, body: bytes) -> str:
    if status in REFUSED:
        # Its words are left out: some servers repeat the key.
        return f"The embedding endpoint refuses the key ({status}); set RECOLLECT_EMBEDDING_API_KEY."
    if status == 404:
        return "The endpoint has no such path or model (404); check RECOLLECT_EMBEDDING_URL and _MODEL."
    text = body[:1_000].decode(errors="replace")
    said = "".join(letter for letter in text if letter.isprintable())[:200]
    return f"The embedding endpoint answered with {status}: {said}"


def _vectors(body: bytes, count: int) -> Vectors:
    """What the answer holds, in the order of the texts and of unit length, if it is what was asked for."""
    try:
        items = json.loads(body)["data"]
        by_index = {item["index"]: item["embedding"] for item in items}
        given = np.array([by_index[number] for number in range(count)])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise EmbeddingFailed(NOT_VECTORS) from error
    if len(items) != count or given.ndim != 2 or given.dtype.kind not in "fi":
        raise EmbeddingFailed(NOT_VECTORS)
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(given, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise EmbeddingFailed("The embedding endpoint gave a vector without a direction.")
    unit: Vectors = (given / lengths).astype(np.float32)
    return unit
