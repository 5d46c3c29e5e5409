"""mem0's webhooks: whoever keeps a copy of a memory hears that it has changed."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.raw import assert_problem, exchange, request
from tests.api.serving import serving
from tests.conftest import Person, make_settings
from tests.events.inbound.conftest import Ledger
from tests.events.inbound.sending import MEM0, MEM0_SECRET, change, send_mem0

pytestmark = pytest.mark.anyio

TAKEN = {"received": True}
REPEATED = {"received": True, "duplicate": True}


def basic(password: str) -> str:
    return f"Basic {base64.b64encode(f'mem0:{password}'.encode()).decode()}"


async def test_a_change_at_mem0_becomes_an_event_of_the_service(
    anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    memory = str(uuid4())
    answer = await send_mem0(anonymous, change("ADD", memory, user_id="ana"))

    assert (answer.status_code, answer.json()) == (200, TAKEN)
    # Thin: where to look, and never what the memory says.
    assert await ledger.events("memory.%") == [
        {
            "type": "memory.added",
            "subject": f"memory/{memory}",
            "data": {"source": "mem0", "memory_id": memory, "user_id": "ana"},
            "user_id": None,
            "workspace_id": None,
            "company_id": None,
        }
    ]


async def test_every_way_in_which_mem0_puts_it_is_understood(
    anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    sent: list[tuple[dict[str, Any], str, str | None]] = [
        (change("ADD", "m"), "memory.added", None),
        (change("UPDATE", "m"), "memory.updated", None),
        (change("DELETE", "m"), "memory.deleted", None),
        (
            {"event_details": {"memory_id": "m", "event": "CATEGORIZE", "categories": ["a"]}},
            "memory.updated",
            None,
        ),
        ({"event": "memory_add", "id": "m", "data": {"user_id": "ana"}}, "memory.added", "ana"),
        ({"event": "memory:update", "id": "m", "user_id": "ana", "new": [1]}, "memory.updated", "ana"),
        ({"event": "memory_delete", "id": "m", "user_id": 7, "data": "text"}, "memory.deleted", "7"),
        ({"event_details": {"id": "m", "event": "ADD"}, "user_id": "ana"}, "memory.added", "ana"),
    ]
    for body, kind, user in sent:
        with subtests.test(body=body):
            assert (await send_mem0(anonymous, body)).json() == TAKEN
            latest = (await ledger.events("memory.%"))[-1]
            assert (latest["type"], latest["subject"], latest["data"]["user_id"]) == (kind, "memory/m", user)
    assert len(await ledger.events("memory.%")) == len(sent)


async def test_what_is_not_a_change_is_taken_and_passed_over(
    anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    answer = await send_mem0(anonymous, change("EXPORT", "m"))
    assert answer.status_code == 200
    assert answer.json().keys() == {"received", "ignored"}
    assert await ledger.events("memory.%") == []


# Once


async def test_a_repeated_delivery_is_heard_once(anonymous: httpx.AsyncClient, ledger: Ledger) -> None:
    sent = change("UPDATE", "m")
    assert (await send_mem0(anonymous, sent)).json() == TAKEN
    assert (await send_mem0(anonymous, sent)).json() == REPEATED
    assert len(await ledger.events("memory.%")) == 1


async def test_ten_deliveries_at_once_are_heard_once(anonymous: httpx.AsyncClient, ledger: Ledger) -> None:
    for sent in (change("UPDATE", "m"), change("UPDATE", "n", event_id="e")):
        answers = await asyncio.gather(*(send_mem0(anonymous, sent) for _ in range(10)))
        assert {answer.status_code for answer in answers} == {200}
        assert sorted(len(answer.json()) for answer in answers) == [1] + [2] * 9
    assert len(await ledger.events("memory.%")) == 2


async def test_a_memory_that_is_changed_to_and_fro_is_heard_each_time(
    anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    for memory in ("tea", "coffee", "tea"):
        assert (await send_mem0(anonymous, change("UPDATE", "m", memory))).json() == TAKEN
    assert len(await ledger.events("memory.updated")) == 3


async def test_the_same_words_about_two_memories_are_two_changes(
    anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    for memory_id in ("m", "n"):
        assert (await send_mem0(anonymous, change("ADD", memory_id, event_id="run"))).json() == TAKEN
    assert [found["subject"] for found in await ledger.events("memory.%")] == ["memory/m", "memory/n"]


async def test_the_same_words_a_day_later_are_news(anonymous: httpx.AsyncClient, ledger: Ledger) -> None:
    sent = change("UPDATE", "m")
    await send_mem0(anonymous, sent)
    await ledger.run("update events.received set received_at = now() - interval '25 hours'")
    assert (await send_mem0(anonymous, sent)).json() == TAKEN
    assert (await send_mem0(anonymous, sent)).json() == REPEATED


async def test_a_numbered_delivery_is_heard_once_whenever_it_comes_again(
    anonymous: httpx.AsyncClient, ledger: Ledger
) -> None:
    first = change("UPDATE", "m", "tea", event_id="1")
    assert (await send_mem0(anonymous, first)).json() == TAKEN
    assert (await send_mem0(anonymous, change("UPDATE", "m", "coffee", event_id="2"))).json() == TAKEN
    assert (await send_mem0(anonymous, first)).json() == REPEATED


# The secret


async def test_the_secret_may_come_in_several_headers(
    anonymous: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for headers in (
        {"Authorization": f"Bearer {MEM0_SECRET}"},
        {"Authorization": f"bearer {MEM0_SECRET}"},
        {"Authorization": basic(MEM0_SECRET)},
        {"X-Webhook-Secret": MEM0_SECRET},
    ):
        with subtests.test(headers=headers):
            answer = await send_mem0(anonymous, change("ADD", uuid4().hex), **headers)
            assert answer.json() == TAKEN


async def test_without_the_secret_nothing_is_taken(
    ana: Person, anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    for headers in (
        {"X-Other": "x"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {MEM0_SECRET}x"},
        {"Authorization": f"Bearer {MEM0_SECRET[:-1]}"},
        {"Authorization": f"Token {MEM0_SECRET}"},
        {"Authorization": MEM0_SECRET},
        {"Authorization": f"Bearer {ana.key}"},
        {"Authorization": basic("wrong")},
        {"Authorization": basic("")},
        {"Authorization": "Basic !"},
        {"Authorization": "Basic é"},
        {"X-Webhook-Secret": "wrong"},
        {"X-Webhook-Secret": ""},
        {"X-Webhook-Secret": "é"},
        {"X-Webhook-Secret": "wrong", "Authorization": f"Bearer {MEM0_SECRET}"},
    ):
        with subtests.test(headers=headers):
            encoded = {name: value.encode() for name, value in headers.items()}
            for body in (change("ADD", "m"), {}):  # who may not send is not told what to send
                answer = await anonymous.post(MEM0, json=body, headers=encoded)  # type: ignore[arg-type]
                assert MEM0_SECRET not in json.dumps(assert_problem(answer, 401, "wrong_secret"))
    assert await ledger.received("mem0") == 0
    assert await ledger.events("memory.%") == []


async def test_a_server_without_a_secret_takes_nothing(
    home: Path, database_url: str, subtests: pytest.Subtests
) -> None:
    for configured in (None, ""):
        settings = make_settings(home, database_url, mem0_webhook_secret=configured)
        async with (
            serving(settings) as (_, address),
            httpx.AsyncClient(base_url=address, timeout=30) as http,
        ):
            for headers in ({"X-Webhook-Secret": ""}, {"Authorization": "Bearer"}):
                with subtests.test(configured=configured, headers=headers):
                    answer = await send_mem0(http, change("ADD", "m"), **headers)
                    problem = assert_problem(answer, 404, "webhook_not_configured")
                    assert "MEM0_WEBHOOK_SECRET" in problem["detail"]


# Bodies


async def test_a_body_that_is_not_a_change_is_refused_with_a_reason(
    anonymous: httpx.AsyncClient, ledger: Ledger, subtests: pytest.Subtests
) -> None:
    authorization = {"Authorization": f"Bearer {MEM0_SECRET}", "Content-Type": "application/json"}
    for body, status in [
        (b"", 400),
        (b"{", 400),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"event_details": []}', 422),
        (b'{"event_details": {"event": "ADD"}}', 422),
        (b'{"event_details": {"id": "m"}}', 422),
        (b'{"event": "ADD", "id": ["marker"]}', 422),
        (b'{"event": "ADD", "id": ""}', 422),
        (json.dumps({"event": "ADD", "id": "m" * 256}).encode(), 422),
        (b'{"event": {"marker": 1}, "id": "m"}', 422),
    ]:
        with subtests.test(body=body):
            answer = await anonymous.post(MEM0, content=body, headers=authorization)
            assert "marker" not in json.dumps(assert_problem(answer, status))
    assert await ledger.received("mem0") == 0


async def test_the_longest_names_are_taken(anonymous: httpx.AsyncClient, ledger: Ledger) -> None:
    longest = "\N{GRINNING FACE}" * 255
    for more in ({}, {"event_id": longest}):
        sent = change("ADD", longest, user_id=longest, **more)
        assert (await send_mem0(anonymous, sent)).json() == TAKEN
    assert [found["data"]["memory_id"] for found in await ledger.events("memory.%")] == [longest] * 2


async def test_a_form_is_refused(anonymous: httpx.AsyncClient) -> None:
    answer = await anonymous.post(MEM0, data={"event": "ADD"}, headers={"X-Webhook-Secret": MEM0_SECRET})
    assert_problem(answer, 415, "unsupported_body")


async def test_a_body_that_lies_about_its_length_is_refused(address: str, ledger: Ledger) -> None:
    body = json.dumps(change("ADD", "m")).encode()
    for length, status in ((len(body) - 1, 400), (len(body) + 1, 408)):
        sent = request(
            "POST",
            MEM0,
            "Content-Type: application/json",
            f"X-Webhook-Secret: {MEM0_SECRET}",
            f"Content-Length: {length}",
            body=body,
        )
        assert_problem(await exchange(address, sent), status)
    assert await ledger.received("mem0") == 0
