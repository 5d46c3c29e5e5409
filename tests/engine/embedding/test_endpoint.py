"""An endpoint that speaks OpenAI's protocol, as it should and otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import numpy as np
import pytest

from recollect.engine.embedding.endpoint import ATTEMPTS, TEXTS_PER_REQUEST, EndpointEmbedder
from recollect.engine.embedding.models import EmbeddingFailed
from tests.access.loopback import Answer, Loopback, Request

pytestmark = pytest.mark.anyio

Serve = Callable[[Request], Awaitable[Answer | bytes | None]]
KEY = "sk-of-the-tests"


def vector_of(text: str, dimension: int = 3) -> list[float]:
    return [float(len(text)), 4.0, *range(dimension)][:dimension]


async def serving(request: Request) -> Answer:
    """What OpenAI, Ollama, vLLM and llama.cpp all do; the order is nobody's promise."""
    dimension = request.body.get("dimensions", 3)
    data = [
        {"object": "embedding", "index": index, "embedding": vector_of(text, dimension)}
        for index, text in enumerate(request.body["input"])
    ]
    model = request.body["model"]
    return 200, {"object": "list", "model": model, "data": data[::-1], "usage": {"prompt_tokens": 1}}


@asynccontextmanager
async def asking(
    answer: Serve,
    http: httpx.AsyncClient,
    *,
    key: str | None = None,
    dimension: int | None = None,
    deadline: float = 20,
    path: str = "/v1",
) -> AsyncIterator[tuple[EndpointEmbedder, Loopback]]:
    async with Loopback(answer).running() as server:
        yield (
            EndpointEmbedder(
                http,
                f"{server.url}{path}",
                "some-model",
                key,
                dimension,
                deadline_seconds=deadline,
                pause_seconds=0,
            ),
            server,
        )


async def test_vectors_come_in_the_order_of_the_texts_and_of_unit_length(http: httpx.AsyncClient) -> None:
    texts = [f"{'x' * number}" for number in range(2 * TEXTS_PER_REQUEST + 1)]
    async with asking(serving, http, key=KEY) as (embedder, server):
        assert (embedder.model, embedder.dimension) == ("openai:some-model", 0)
        vectors = await embedder.embed(texts)

    assert (embedder.model, embedder.dimension) == ("openai:some-model", 3)
    assert vectors.dtype == np.float32
    # An empty text is asked for as a space.
    expected = np.array([vector_of(text or " ") for text in texts])
    assert vectors == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True), abs=1e-6)
    assert [len(request.body["input"]) for request in server.requests] == [TEXTS_PER_REQUEST] * 2 + [1]
    for request in server.requests:
        assert request.path == "/v1/embeddings"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert (request.body["model"], request.body["encoding_format"]) == ("some-model", "float")
        assert "dimensions" not in request.body


async def test_a_dimension_is_asked_for_and_part_of_the_name(http: httpx.AsyncClient) -> None:
    async with asking(serving, http, dimension=2, path="/v1/embeddings") as (embedder, server):
        assert (embedder.model, embedder.dimension) == ("openai:some-model@2", 2)
        assert (await embedder.embed([])).shape == (0, 2)
        assert (await embedder.embed(["tea"])).shape == (1, 2)

    [request] = server.requests
    assert request.path == "/v1/embeddings"
    assert request.body["dimensions"] == 2
    assert "authorization" not in request.headers


async def test_vectors_of_another_length_are_refused(http: httpx.AsyncClient) -> None:
    lengths = iter([3, 4, 3])

    async def changing(request: Request) -> Answer:
        return 200, {"data": [{"index": 0, "embedding": [1.0] * next(lengths)}]}

    async with asking(changing, http) as (embedder, _):
        await embedder.embed(["tea"])
        with pytest.raises(EmbeddingFailed, match="of 4 numbers instead of 3"):
            await embedder.embed(["tea"])
    async with asking(changing, http, dimension=2) as (embedder, _):
        with pytest.raises(
            EmbeddingFailed, match="of 3 numbers instead of 2; set RECOLLECT_EMBEDDING_DIMENSION"
        ):
            await embedder.embed(["tea"])


def answer(*vectors: Any, **changes: Any) -> dict[str, Any]:
    data = [{"index": index, "embedding": vector, **changes} for index, vector in enumerate(vectors)]
    return {"data": data}


NOT_VECTORS: dict[str, Any] = {
    "text": "<html>",
    "no data": {"error": "what?"},
    "no object": [],
    "null": None,
    "too few": answer([1.0]),
    "too many": answer([1.0], [1.0], [1.0]),
    "one index twice": answer([1.0], [1.0], index=0),
    "no index": {"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]},
    "odd lengths": answer([1.0], [1.0, 2.0]),
    "empty": answer([], []),
    "no list": answer(1.0, 1.0),
    "nested": answer([[1.0]], [[1.0]]),
    "words": answer(["1.0"], ["2.0"]),
    "base64": answer("AACAPw==", "AACAPw=="),
    "none": answer([None], [None]),
    "objects": answer([{}], [{}]),
    "truth": answer([True], [True]),
    "a number beyond all": answer([10**400], [1.0]),
    "not a number": answer([float("nan")], [1.0]),
    "infinite": answer([float("inf")], [1.0]),
    "huge": answer([1e300, 1e300], [1.0, 1.0]),
    "without a direction": answer([0.0], [1.0]),
}


@pytest.mark.parametrize("content", NOT_VECTORS.values(), ids=NOT_VECTORS)
async def test_what_is_not_a_vector_for_each_text_is_refused(http: httpx.AsyncClient, content: Any) -> None:
    async def senseless(request: Request) -> Answer:
        return 200, content

    async with asking(senseless, http) as (embedder, server):
        with pytest.raises(EmbeddingFailed, match=r"not one vector for each text|without a direction"):
            await embedder.embed(["tea", "coffee"])

    assert len(server.requests) == 1
    assert embedder.dimension == 0


async def test_what_passes_is_asked_again(http: httpx.AsyncClient) -> None:
    refusals = iter([429, 503])

    async def busy(request: Request) -> Answer:
        status = next(refusals, None)
        return (status, {}) if status else await serving(request)

    async with asking(busy, http) as (embedder, server):
        assert len(await embedder.embed(["tea"])) == 1
        assert len(server.requests) == 3


async def test_a_connection_that_breaks_is_made_again(http: httpx.AsyncClient) -> None:
    breaks = iter([True, True])

    async def breaking(request: Request) -> Answer:
        if next(breaks, False):
            raise ConnectionResetError
        return await serving(request)

    async with asking(breaking, http) as (embedder, server):
        assert len(await embedder.embed(["tea"])) == 1
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "requests", "says"),
    [
        (429, ATTEMPTS, "answered with 429: .*not so fast"),
        (500, ATTEMPTS, "answered with 500"),
        (400, 1, "answered with 400: .*not so fast"),
        (302, 1, "answered with 302"),
        (401, 1, "RECOLLECT_EMBEDDING_API_KEY"),
        (403, 1, "RECOLLECT_EMBEDDING_API_KEY"),
        (404, 1, "RECOLLECT_EMBEDDING_URL and _MODEL"),
    ],
)
async def test_a_refusal_says_what_to_do_and_never_the_key(
    http: httpx.AsyncClient, status: int, requests: int, says: str
) -> None:
    async def refusing(request: Request) -> Answer:
        message = "not so fast" if status in {429, 400} else f"{KEY} is unknown"
        return status, {"error": {"message": message if status != 500 else ""}}

    async with asking(refusing, http, key=KEY) as (embedder, server):
        with pytest.raises(EmbeddingFailed, match=says) as refused:
            await embedder.embed(["tea"])
        assert len(server.requests) == requests

    assert (refused.value.code, refused.value.status) == ("embedding_failed", 502)
    if status != 302:
        assert KEY not in refused.value.detail


@pytest.mark.parametrize("answers", [None, b" "], ids=["nothing", "a byte at a time"])
async def test_one_that_never_finishes_is_left(http: httpx.AsyncClient, answers: bytes | None) -> None:
    async def hanging(request: Request) -> bytes | None:
        return answers

    async with asking(hanging, http, deadline=0.3) as (embedder, _):
        with pytest.raises(EmbeddingFailed, match=r"within 0\.3 seconds"):
            await embedder.embed(["tea"])


async def test_one_that_never_stops_is_left(http: httpx.AsyncClient) -> None:
    async def flooding(request: Request) -> bytes:
        return b" " * 4_000_000

    async with asking(flooding, http) as (embedder, _):
        with pytest.raises(EmbeddingFailed, match="too long"):
            await embedder.embed(["tea"])


async def test_one_that_is_not_there_is_named_as_such(http: httpx.AsyncClient) -> None:
    async with asking(serving, http) as (embedder, _):
        pass

    with pytest.raises(EmbeddingFailed, match="cannot be reached"):
        await embedder.embed(["tea"])
