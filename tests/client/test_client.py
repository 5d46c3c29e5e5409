"""The Python client, against a real server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from recollect.client import Recollect
from recollect.client.connection import ATTEMPTS, LONGEST_PAUSE_SECONDS, PAGE, pause
from recollect.errors import (
    Conflict,
    InvalidInput,
    MalformedRequest,
    Misconfigured,
    NotAllowed,
    NotFound,
    NotSignedIn,
    Unavailable,
)
from tests.client.relay import Relay, answer, relaying
from tests.conftest import MakePerson, Person

pytestmark = pytest.mark.anyio

BUSY = answer("503 Service Unavailable", b"", "retry-after: 0")
NOBODY_LISTENS = "http://127.0.0.1:9"


@pytest.fixture
async def memory(address: str, ana: Person) -> AsyncIterator[Recollect]:
    async with Recollect(address, key=ana.key) as client:
        yield client


@pytest.fixture
async def relay(address: str) -> AsyncIterator[Relay]:
    async with relaying(address) as found:
        yield found


@pytest.fixture
async def relayed(relay: Relay, ana: Person) -> AsyncIterator[Recollect]:
    async with Recollect(relay.address, key=ana.key) as client:
        yield client


async def test_a_key_knows_whose_it_is(memory: Recollect, ana: Person) -> None:
    me = await memory.me()

    assert (me.id, me.email, me.scopes) == (ana.id, "ana@example.com", ["read", "write"])


async def test_what_is_set_is_read_back_and_gone_when_deleted(memory: Recollect, ana: Person) -> None:
    value = {"tone": "warm", "emoji": "☕", "limits": [1, 2.5, None, True]}
    entry = await memory.set_memory_key(ana.id, "style", value, namespace="prefs")
    assert (entry.key, entry.value, entry.user_id) == ("style", value, ana.id)

    assert await memory.get_memory_key(ana.id, "style", namespace="prefs") == value
    assert await memory.get_memory(str(ana.id), namespace="prefs") == [entry]
    assert await memory.get_memory(ana.id) == []
    [summary] = await memory.namespaces(ana.id)
    assert (summary.namespace, summary.entries) == ("prefs", 1)

    await memory.delete_memory_key(ana.id, "style", namespace="prefs")
    assert await memory.get_memory(ana.id, namespace="prefs") == []


async def test_names_with_a_meaning_in_addresses_are_taken_as_they_are(
    memory: Recollect, ana: Person
) -> None:
    key = "a/b?c=d&e#f%20 +ü../"
    await memory.set_memory_key(ana.id, key, 1, namespace=key)

    assert await memory.get_memory_key(ana.id, key, namespace=key) == 1
    await memory.delete_memory_key(ana.id, key, namespace=key)


async def test_a_missing_key_is_not_found_unless_a_default_is_given(memory: Recollect, ana: Person) -> None:
    with pytest.raises(NotFound) as refused:
        await memory.get_memory_key(ana.id, "nothing")
    assert refused.value.code == "unknown_key"
    with pytest.raises(NotFound):
        await memory.delete_memory_key(ana.id, "nothing")

    assert await memory.get_memory_key(ana.id, "nothing", default=None) is None


async def test_a_default_stands_for_a_missing_key_and_for_nothing_else(
    relay: Relay, relayed: Recollect, ana: Person
) -> None:
    nobody = answer("404 Not Found", b'{"code": "not_found", "detail": "There is no such user."}')
    relay.own_answers = [nobody]

    with pytest.raises(NotFound, match="no such user"):
        await relayed.get_memory_key(ana.id, "tone", default="warm")


async def test_appending_keeps_the_last(memory: Recollect, ana: Person) -> None:
    for number in range(4):
        entry = await memory.append_memory_key(ana.id, "recent", number, keep=3, namespace="icebreakers")

    assert entry.value == [1, 2, 3]


async def test_all_pages_are_read(memory: Recollect, ana: Person, database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            "insert into user_memory (user_id, namespace, key, value)"
            " select %s, 'default', n::text, '1' from generate_series(1, %s) n"
            " union all select %s, 'space ' || n, 'key', '1' from generate_series(1, %s) n",
            [ana.id, 2 * PAGE + 1, ana.id, PAGE],
        )

    entries = await memory.get_memory(ana.id)
    namespaces = await memory.namespaces(ana.id)

    assert len({entry.key for entry in entries}) == len(entries) == 2 * PAGE + 1
    assert len({found.namespace for found in namespaces}) == len(namespaces) == PAGE + 1


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("set_memory_key", ("not a uuid", "key", 1)),
        ("set_memory_key", (UUID(int=1), "", 1)),
        ("set_memory_key", (UUID(int=1), "k" * 257, 1)),
        ("set_memory_key", (UUID(int=1), "nul\x00", 1)),
        ("set_memory_key", (UUID(int=1), "half \ud800", 1)),
        ("set_memory_key", (UUID(int=1), 5, 1)),
        ("set_memory_key", (UUID(int=1), "key", float("nan"))),
        ("set_memory_key", (UUID(int=1), "key", {1, 2})),
        ("set_memory_key", (UUID(int=1), "key", {1: "a"})),
        ("set_memory_key", (UUID(int=1), "key", 2**63)),
        ("set_memory_key", (UUID(int=1), "key", "x" * 10_240)),
        ("set_memory_key", (UUID(int=1), "key", "nul\x00")),
        ("set_memory_key", (UUID(int=1), "key", 1, "")),
        ("append_memory_key", (UUID(int=1), "key", object())),
        ("get_memory", (UUID(int=1), "")),
        ("get_memory_key", (UUID(int=1), "")),
        ("delete_memory_key", (UUID(int=1), "k", "n" * 257)),
        ("namespaces", ("../../admin",)),
    ],
)
async def test_invalid_input_is_refused_before_anything_is_sent(
    method: str, arguments: tuple[Any, ...]
) -> None:
    async with Recollect(NOBODY_LISTENS, key="rk_any") as memory:
        with pytest.raises((InvalidInput, MalformedRequest)):
            await getattr(memory, method)(*arguments)


@pytest.mark.parametrize("keep", [0, 1001])
async def test_a_number_to_keep_out_of_range_is_refused_before_anything_is_sent(keep: int) -> None:
    async with Recollect(NOBODY_LISTENS, key="rk_any") as memory:
        with pytest.raises(InvalidInput, match=r"^keep: "):
            await memory.append_memory_key(uuid4(), "recent", 1, keep=keep)


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("127.0.0.1:8000", "rk_x"),
        ("http://a:port", "rk_x"),
        (NOBODY_LISTENS, ""),
        (NOBODY_LISTENS, "rk_\r\nX-Admin: 1"),
        (NOBODY_LISTENS, "rk_é"),
    ],
)
async def test_an_address_or_key_that_cannot_be_one_is_refused(address: str, key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Recollect(address, key=key)
    assert "rk_" not in refused.value.detail


async def test_a_refusal_comes_back_as_the_error_that_the_server_raised(
    memory: Recollect, address: str, ana: Person, person: MakePerson
) -> None:
    async with Recollect(address, key="rk_unknown") as stranger:
        with pytest.raises(NotSignedIn):
            await stranger.me()
    reader = await person("reader@example.com", scopes=("read",))
    async with Recollect(address, key=reader.key) as reading:
        with pytest.raises(NotAllowed, match="bank:write"):
            await reading.set_memory_key(reader.id, "tone", "warm")
    await memory.set_memory_key(ana.id, "tone", "warm")
    with pytest.raises(Conflict) as conflict:
        await memory.append_memory_key(ana.id, "tone", 1)
    assert (conflict.value.code, conflict.value.status) == ("not_a_list", 409)


async def test_a_write_whose_answer_was_lost_is_repeated_and_happens_once(
    relay: Relay, relayed: Recollect, ana: Person
) -> None:
    relay.lost_answers = 2

    entry = await relayed.append_memory_key(ana.id, "recent", "once")

    assert entry.value == ["once"]
    assert len(relay.requests) == 3
    assert len(relay.idempotency_keys) == 3
    assert len(set(relay.idempotency_keys)) == 1


async def test_each_call_has_an_idempotency_key_of_its_own(
    relay: Relay, relayed: Recollect, ana: Person
) -> None:
    await relayed.append_memory_key(ana.id, "recent", "same")
    entry = await relayed.append_memory_key(ana.id, "recent", "same")

    assert entry.value == ["same", "same"]


async def test_a_deletion_whose_answer_was_lost_is_a_deletion(
    relay: Relay, relayed: Recollect, ana: Person
) -> None:
    await relayed.set_memory_key(ana.id, "tone", "warm")
    relay.lost_answers = 1

    await relayed.delete_memory_key(ana.id, "tone")

    assert await relayed.get_memory(ana.id) == []


async def test_a_busy_server_is_asked_again(relay: Relay, relayed: Recollect, ana: Person) -> None:
    relay.own_answers = [BUSY, answer("502 Bad Gateway", b"<html>")]

    assert (await relayed.me()).id == ana.id


async def test_a_server_that_stays_busy_is_asked_a_few_times_only(relay: Relay, relayed: Recollect) -> None:
    relay.own_answers = [BUSY] * 20

    with pytest.raises(Unavailable):
        await relayed.me()
    assert len(relay.requests) == ATTEMPTS


async def test_a_refusal_is_not_repeated(relay: Relay, relayed: Recollect, ben: Person) -> None:
    with pytest.raises(NotFound):
        await relayed.get_memory(ben.id)
    assert len(relay.requests) == 1


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with Recollect(NOBODY_LISTENS, key="rk_any") as memory:
        with pytest.raises(Unavailable, match="running"):
            await memory.me()


async def test_a_server_that_never_answers_is_given_up(relay: Relay, ana: Person) -> None:
    relay.is_silent = True
    async with Recollect(relay.address, key=ana.key, timeout=0.1) as memory:
        with pytest.raises(Unavailable, match="in time"):
            await memory.me()
    assert len(relay.requests) == 1


async def test_an_answer_of_another_server_is_not_taken_for_ours(
    relay: Relay, relayed: Recollect, ana: Person
) -> None:
    calls = (relayed.me, lambda: relayed.get_memory(ana.id), lambda: relayed.get_memory_key(ana.id, "key"))
    for body in (b"<html>", b"[]", b'{"data": 5}', b'{"data": {"key": 1}}', b"\xff"):
        for call in calls:
            relay.own_answers = [answer("200 OK", body)]
            with pytest.raises(Misconfigured, match="address"):
                await call()


async def test_a_newer_server_may_say_more(relay: Relay, relayed: Recollect, ana: Person) -> None:
    me: dict[str, Any] = {
        "id": str(ana.id),
        "email": None,
        "full_name": None,
        "is_admin": False,
        "scopes": [],
        "new": 1,
    }
    relay.own_answers = [answer("200 OK", json.dumps(me).encode())]

    assert (await relayed.me()).id == ana.id


def test_no_server_can_make_the_client_wait_for_long() -> None:
    assert pause(1, "86400") == LONGEST_PAUSE_SECONDS
    assert max(pause(attempt, "") for attempt in range(1, 50)) <= LONGEST_PAUSE_SECONDS
    assert pause(1, "Wed, 21 Oct 2099 07:28:00 GMT") < 1
