"""The limit at the edge, on a real server with an application of one line behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.http.callers import COOKIE, SECURE_COOKIE
from recollect.http.edge.limit import CALLERS_PER_ADDRESS, Limit
from recollect.http.edge.protocol import Protocol
from recollect.redis.link import RedisLink
from recollect.server import listen
from tests.redis.server import running_redis, until

pytestmark = pytest.mark.anyio

KEY = b"a key of the tests"
PER_MINUTE = 3


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    await PlainTextResponse("done")(scope, receive, send)


def _limited(link: RedisLink) -> ASGIApp:
    return Limit(_answer, link=link, per_minute=PER_MINUTE, key=KEY)


@asynccontextmanager
async def _served(link: RedisLink) -> AsyncIterator[httpx.AsyncClient]:
    config = uvicorn.Config(
        _limited(link), http=Protocol, ws="none", lifespan="off", log_config=None, proxy_headers=False
    )
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await until(lambda: server.started)
            address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=address) as client:
                yield client
        finally:
            server.should_exit = server.force_exit = True
            await serving


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with RedisLink(None) as link, _served(link) as client:
        yield client


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def _allowed(http: httpx.AsyncClient, count: int, **request: Any) -> int:
    answers = [await http.get("/api/anything", **request) for _ in range(count)]
    assert {answer.status_code for answer in answers} <= {200, 429}
    return sum(answer.status_code == 200 for answer in answers)


async def test_a_caller_is_told_what_is_left_and_then_when_to_come_back(http: httpx.AsyncClient) -> None:
    for left in (2, 1, 0):
        answer = await http.get("/api/anything", headers=_bearer("ana"))
        assert (answer.status_code, answer.text) == (200, "done")
        assert answer.headers["ratelimit-limit"] == "3"
        assert answer.headers["ratelimit-remaining"] == f"{left}"
        assert 1 <= int(answer.headers["ratelimit-reset"]) <= 61
        assert "retry-after" not in answer.headers

    refused = await http.get("/api/anything", headers=_bearer("ana"))

    assert refused.status_code == 429
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "too_many_requests"
    assert 1 <= int(refused.headers["retry-after"]) <= 61
    assert refused.headers["ratelimit-remaining"] == "0"


async def test_each_caller_has_an_allowance_and_so_has_everybody_without_a_name(
    http: httpx.AsyncClient,
) -> None:
    for request in (
        {"headers": _bearer("ana")},
        {"headers": _bearer("ben")},
        {"headers": {"Cookie": f"{COOKIE}=ana"}},
        {},
    ):
        assert await _allowed(http, PER_MINUTE + 1, **request) == PER_MINUTE


@pytest.mark.parametrize(
    "disguises",
    [
        [{"Authorization": f"{scheme} token"} for scheme in ("Bearer", "bearer", "BEARER", "bEARER")],
        [{"Cookie": f"{COOKIE}=token; {SECURE_COOKIE}={number}; other={number}"} for number in range(4)],
        [{"Authorization": "Bearer token", "Cookie": f"{COOKIE}={number}"} for number in range(4)],
        [{"User-Agent": f"{number}", "X-Forwarded-For": f"203.0.113.{number}"} for number in range(4)],
        [{"Authorization": word} for word in ("Bearer", "Basic", "x", "y")],
    ],
)
async def test_a_caller_does_not_get_more_by_looking_different(
    http: httpx.AsyncClient, disguises: list[dict[str, str]]
) -> None:
    assert sum([await _allowed(http, 1, headers=headers) for headers in disguises]) == PER_MINUTE


async def test_made_up_credentials_are_worth_a_few_callers_and_no_more(http: httpx.AsyncClient) -> None:
    most = PER_MINUTE * CALLERS_PER_ADDRESS
    allowed = sum(
        [await _allowed(http, 1, headers=_bearer(f"guess {number}")) for number in range(most + 20)]
    )
    assert allowed == most
    refused = await http.get("/api/anything", headers=_bearer("one more"))
    assert (refused.status_code, refused.headers["ratelimit-limit"]) == (429, f"{most}")


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/static/style.css"])
async def test_what_operators_and_pages_need_is_not_limited(http: httpx.AsyncClient, path: str) -> None:
    answers = [await http.get(path) for _ in range(PER_MINUTE * CALLERS_PER_ADDRESS + 1)]
    assert all(answer.status_code == 200 for answer in answers)
    assert not any("ratelimit-limit" in answer.headers for answer in answers)
    assert await _allowed(http, 1) == 1


@pytest.mark.parametrize("path", ["/healthy", "/static", "/api/health", "/ready/"])
async def test_what_only_looks_like_it_is(http: httpx.AsyncClient, path: str) -> None:
    answers = [await http.get(path) for _ in range(PER_MINUTE + 1)]
    assert [answer.status_code for answer in answers] == [200] * PER_MINUTE + [429]


async def test_a_refused_upload_does_not_spoil_the_connection(http: httpx.AsyncClient) -> None:
    await _allowed(http, PER_MINUTE)
    for _ in range(2):
        refused = await http.post("/api/anything", content=b"x" * 300_000)
        assert refused.status_code == 429
    assert await _allowed(http, 1, headers=_bearer("ana")) == 1


@pytest.mark.parametrize(
    ("addresses", "are_one"),
    [
        (("2001:db8::1", "2001:db8::ffff:2"), True),
        (("2001:db8::1", "2001:db8:0:1::1"), False),
        (("203.0.113.7", "::ffff:203.0.113.7"), True),
        (("203.0.113.7", "203.0.113.8"), False),
    ],
)
async def test_addresses_that_one_client_can_choose_from_are_one(
    addresses: tuple[str, str], are_one: bool
) -> None:
    app = _limited(RedisLink(None))
    first, second = addresses
    for _ in range(PER_MINUTE):
        assert (await _first_message(app, "http", first))["status"] == 200
    assert (await _first_message(app, "http", second))["status"] == (429 if are_one else 200)


async def test_websockets_count_too() -> None:
    app = _limited(RedisLink(None))
    for _ in range(PER_MINUTE):
        assert (await _first_message(app, "websocket", "203.0.113.7"))["type"] == "websocket.accept"
    refusal = await _first_message(app, "websocket", "203.0.113.7")
    assert (refusal["type"], refusal["status"]) == ("websocket.http.response.start", 429)


async def test_a_websocket_with_an_unreadable_host_is_counted_like_any_other() -> None:
    app = _limited(RedisLink(None))
    message = await _first_message(app, "websocket", "203.0.113.7", host=b"[")
    assert message["type"] == "websocket.accept"


async def test_servers_on_one_redis_share_their_limits_and_keep_no_names_there() -> None:
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(running_redis())
        enter: Callable[[AbstractAsyncContextManager[Any]], Any] = stack.enter_async_context
        links = [await enter(RedisLink(redis.url)) for _ in range(2)]
        here, there = [await enter(_served(link)) for link in links]

        assert await _allowed(here, 2, headers=_bearer("the-token")) == 2
        assert await _allowed(there, 2, headers=_bearer("the-token")) == 1

        operator = await enter(redis.client())
        names = b" ".join(await operator.keys())
        assert names.count(b"recollect:limit:") == 2
        assert b"the-token" not in names
        assert b"127.0.0.1" not in names


async def _first_message(app: ASGIApp, kind: str, client: str, host: bytes = b"localhost") -> Message:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": kind,
        "method": "GET",
        "scheme": "http" if kind == "http" else "ws",
        "path": "/api/anything",
        "query_string": b"",
        "headers": [(b"host", host)],
        "client": (client, 50_000),
        "server": ("127.0.0.1", 8000),
    }
    await app(scope, receive, send)
    return sent[0]
