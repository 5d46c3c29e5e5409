"""mem0's platform when it does not do as it should, and what it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from pydantic import SecretStr

from recollect.access import store
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller
from recollect.engine.mem0 import wire
from recollect.engine.mem0.models import Mem0Away, Mem0NotConfigured, NotSupported
from recollect.engine.mem0.platform import Mem0Platform
from recollect.engine.mem0.wire import Wire
from recollect.engine.models import Addition, Entities, Message, UnknownMemory, Wanted, Where
from recollect.errors import InvalidInput, Misconfigured, RecollectError, TooManyAttempts
from tests.access.loopback import Answer, Loopback, Request

pytestmark = pytest.mark.anyio

KEY = "m0-of-the-tests"
TEA = Addition([Message(content="I like tea.")], Entities(user="kim"), infer=False)
NOTHING: dict[str, Any] = {"count": 0, "next": None, "previous": None, "results": []}
Serve = Callable[[Request], Awaitable[Answer | bytes | None]]


@pytest.fixture
async def caller(services: Services) -> Caller:
    async with services.tenancy.acting_as(SERVICE) as tx:
        return Caller.user(await store.add_user(tx, "ana@example.com", None))


@asynccontextmanager
async def asking(
    services: Services, answer: Serve, *, key: str | None = KEY, seconds: float = 30
) -> AsyncIterator[tuple[Mem0Platform, Loopback]]:
    async with httpx.AsyncClient() as http, Loopback(answer).running() as server:
        secret = SecretStr(key) if key else None
        yield Mem0Platform(Wire(http, server.url, secret, seconds=seconds), services.llm), server


async def call(services: Services, caller: Caller, work: Callable[..., Awaitable[Any]], *given: Any) -> Any:
    async with services.tenancy.acting_as(caller, for_one_call=True) as tx:
        return await work(tx, *given)


def always(status: int, content: Any) -> Serve:
    async def answer(request: Request) -> Answer:
        return status, content

    return answer


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, Misconfigured),
        (403, Misconfigured),
        (400, InvalidInput),
        (422, InvalidInput),
        (429, TooManyAttempts),
        (500, Mem0Away),
        (503, Mem0Away),
    ],
)
async def test_a_refusal_is_told_as_what_it_is(
    services: Services, caller: Caller, status: int, expected: type[RecollectError]
) -> None:
    async with asking(services, always(status, {"detail": "No such field."})) as (engine, _):
        for work, given in ((engine.add, TEA), (engine.search, Wanted("tea")), (engine.list, Where())):
            with pytest.raises(expected) as refused:
                await call(services, caller, work, given)
            assert KEY not in refused.value.detail
    if expected is InvalidInput:
        assert "No such field." in refused.value.detail


async def test_one_that_hangs_or_never_ends_is_given_up(services: Services, caller: Caller) -> None:
    async def hang(request: Request) -> None:
        return None

    async def trickle(request: Request) -> bytes:
        return b" "

    for answer in (hang, trickle):
        async with asking(services, answer, seconds=0.5) as (engine, _):
            with pytest.raises(Mem0Away):
                await call(services, caller, engine.search, Wanted("tea"))


@pytest.mark.parametrize("content", [[], "hello", {"results": 1}, {"results": [{"id": "x"}]}, None])
async def test_an_answer_that_makes_no_sense_is_told_so(
    services: Services, caller: Caller, content: Any
) -> None:
    async with asking(services, always(200, content)) as (engine, _):
        for work, given in (
            (engine.add, TEA),
            (engine.search, Wanted("tea")),
            (engine.list, Where()),
            (engine.get, uuid4()),
            (engine.entities, None),
        ):
            with pytest.raises(Mem0Away, match="not understood"):
                await call(services, caller, work, given)


async def test_one_that_is_away_is_told_so(services: Services, caller: Caller) -> None:
    async with httpx.AsyncClient() as http:
        engine = Mem0Platform(Wire(http, "http://127.0.0.1:9", SecretStr(KEY)), services.llm)
        with pytest.raises(Mem0Away) as away:
            await call(services, caller, engine.list, Where())
    assert away.value.headers["Retry-After"]


async def test_without_a_key_nothing_is_sent(services: Services, caller: Caller) -> None:
    async with asking(services, always(200, NOTHING), key=None) as (engine, server):
        with pytest.raises(Mem0NotConfigured) as refused:
            await call(services, caller, engine.add, TEA)
    assert "MEM0_API_KEY" in refused.value.detail
    assert server.requests == []


async def test_what_another_wrote_there_is_unknown_here(services: Services, caller: Caller) -> None:
    """The account may hold memories that never were anybody's here."""
    memory = {
        "id": str(uuid4()),
        "memory": "Secret.",
        "user_id": "kim",
        "metadata": {"recollect_tenant": "somebody"},
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    }
    for metadata in (None, {}, {"recollect_tenant": "somebody"}, {"recollect_tenant": str(uuid4())}):
        async with asking(services, always(200, {**memory, "metadata": metadata})) as (engine, server):
            for work in (engine.get, engine.delete, engine.history):
                with pytest.raises(UnknownMemory):
                    await call(services, caller, work, uuid4())
            assert all(request.body is None for request in server.requests)


async def test_each_question_names_the_tenant(services: Services, caller: Caller) -> None:
    tenant = str(caller.credential)
    filters = {"OR": [{"user_id": "lee"}, {"NOT": {"agent_id": {"in": ["bot"]}}}]}
    async with asking(services, always(200, NOTHING)) as (engine, server):
        await call(services, caller, engine.search, Wanted("tea", Where(Entities(user="kim"))))
        await call(services, caller, engine.list, Where(filters=filters))
        await call(services, caller, engine.count, Where())
    for request in server.requests:
        assert request.headers["authorization"] == f"Token {KEY}"
        assert {"metadata": {"recollect_tenant": tenant}} in request.body["filters"]["AND"]
    search, listing, _ = server.requests
    assert {"user_id": f"kim@{tenant}"} in search.body["filters"]["AND"]
    assert listing.body["filters"]["AND"][-1] == {
        "OR": [{"user_id": f"lee@{tenant}"}, {"NOT": [{"agent_id": {"in": [f"bot@{tenant}"]}}]}]
    }


async def test_parts_of_names_cannot_be_asked_for(services: Services, caller: Caller) -> None:
    async with asking(services, always(200, NOTHING)) as (engine, server):
        with pytest.raises(NotSupported):
            await call(services, caller, engine.list, Where(filters={"user_id": {"contains": "ki"}}))
    assert server.requests == []


async def test_an_addition_that_takes_a_while_is_waited_for(
    services: Services, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "WAITS", (0, 0, 0))
    stored, polls = str(uuid4()), 0

    async def answer(request: Request) -> Answer:
        nonlocal polls
        if request.path.startswith("/v3/memories/add/"):
            return 200, {"status": "PENDING", "event_id": "e1"}
        if request.path.startswith("/v1/event/e1/"):
            polls += 1
            done = {"status": "SUCCEEDED", "results": [{"id": stored, "event": "ADD"}]}
            return 200, done if polls == 2 else {"status": "RUNNING", "event_id": "e1"}
        return 200, NOTHING

    async with asking(services, answer) as (engine, _):
        added = await call(services, caller, engine.add, TEA)
    assert [str(change.id) for change in added.results] == [stored]
    assert polls == 2


async def test_an_addition_that_fails_or_never_ends_is_told(
    services: Services, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "WAITS", (0, 0))
    for status in ("FAILED", "RUNNING"):

        async def answer(request: Request, status: str = status) -> Answer:
            is_list = request.path.startswith("/v3/memories/?")
            return 200, NOTHING if is_list else {"status": status, "event_id": "e1"}

        async with asking(services, answer) as (engine, _):
            with pytest.raises(Mem0Away):
                await call(services, caller, engine.add, TEA)
