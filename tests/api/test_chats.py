"""Chats over HTTP, and through the client."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from recollect.client import Recollect
from recollect.errors import NotFound
from tests.api.raw import assert_problem
from tests.conftest import MakePerson, Person

pytestmark = pytest.mark.anyio

CHATS = "/api/chats"
TOKEN = "ghp_" + "k7Jq2mXw9bRt4vZs8nLd3pYc6hFg1aUe5oTi"


def told(session: str = "s1", *more: dict[str, Any]) -> dict[str, Any]:
    messages = [
        {"role": "system", "content": "You are a shop assistant."},
        {"role": "user", "content": "Add a cart.", "at": "2026-03-01T12:00:00Z"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Done."},
                {"type": "tool_use", "name": "Edit", "input": {"file_path": "cart.py"}},
            ],
        },
        *more,
    ]
    return {"session": session, "project": "/shop", "title": "A cart", "messages": messages}


TABS = {"role": "user", "content": "Use tabs.", "at": "2026-03-01T13:00:00+01:00"}


async def test_an_application_brings_chats_and_reads_them_back(ana: Person) -> None:
    answer = await ana.http.post(CHATS, json={"chats": [told("s1", TABS)]})

    assert answer.status_code == 200
    imported = answer.json()
    assert (imported["chats"], imported["turns"], imported["known_turns"]) == (1, 3, 0)
    assert imported["masked"] == {}
    [chat_id] = imported["ids"]
    whole = (await ana.http.get(f"{CHATS}/{chat_id}")).json()
    assert (whole["chat"]["source"], whole["chat"]["session"], whole["chat"]["turns"]) == ("api", "s1", 3)
    assert [(turn["role"], turn["text"]) for turn in whole["data"]] == [
        ("user", "Add a cart."),
        ("assistant", "Done."),
        ("user", "Use tabs."),
    ]
    assert whole["data"][2]["doing"] == "Edit cart.py"
    assert whole["data"][2]["said_at"] == "2026-03-01T12:00:00Z"


async def test_a_session_sent_again_adds_what_is_new(ana: Person) -> None:
    first = (await ana.http.post(CHATS, json={"chats": [told()]})).json()
    again = (await ana.http.post(CHATS, json={"chats": [told("s1", TABS)]})).json()
    assert (again["turns"], again["known_turns"]) == (1, 2)
    assert again["ids"] == first["ids"]


async def test_the_last_messages_alone_are_added_at_the_end(ana: Person) -> None:
    [chat_id] = (await ana.http.post(CHATS, json={"chats": [told()]})).json()["ids"]
    await ana.http.post(CHATS, json={"chats": [{"session": "s1", "messages": [TABS]}]})
    turns = (await ana.http.get(f"{CHATS}/{chat_id}")).json()["data"]
    assert [(turn["number"], turn["text"]) for turn in turns][-1] == (2, "Use tabs.")


async def test_ids_come_in_the_order_of_the_chats(ana: Person) -> None:
    silent = {"session": "s0", "messages": [{"role": "assistant", "content": "Hello!"}]}
    answer = await ana.http.post(CHATS, json={"chats": [told("s1"), silent, told("s2", TABS)]})
    first, none, last = answer.json()["ids"]
    assert none is None
    assert (await ana.http.get(f"{CHATS}/{first}")).json()["chat"]["session"] == "s1"
    assert (await ana.http.get(f"{CHATS}/{last}")).json()["chat"]["session"] == "s2"


async def test_a_repeated_request_is_answered_as_before(ana: Person) -> None:
    headers = {"Idempotency-Key": str(uuid4())}
    answers = [await ana.http.post(CHATS, json={"chats": [told()]}, headers=headers) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["Idempotency-Replayed"] == "true"


async def test_a_secret_is_masked(ana: Person) -> None:
    said = {"role": "user", "content": f"Push with {TOKEN}."}
    answer = await ana.http.post(CHATS, json={"chats": [told("s1", said)]})
    assert sum(answer.json()["masked"].values()) == 1
    whole = await ana.http.get(f"{CHATS}/{answer.json()['ids'][0]}")
    assert TOKEN not in whole.text
    assert whole.json()["data"][2]["text"].startswith("Push with [secret: ")


@pytest.mark.parametrize(
    "wrong",
    [
        {"chats": []},
        {"chats": [{"session": "s1", "messages": []}]},
        {"chats": [{"session": "", "messages": [TABS]}]},
        {"chats": [{"session": "s1", "messages": [{"role": "nobody", "content": "x"}]}]},
        {"chats": [{"session": "s1", "messages": [{"role": "user", "content": 1}]}]},
        {"chats": [{"session": "s1", "messages": [TABS]}] * 101},
    ],
)
async def test_what_does_not_fit_is_refused(ana: Person, wrong: dict[str, Any]) -> None:
    assert_problem(await ana.http.post(CHATS, json=wrong), 422)


async def test_a_project_is_named_with_its_workspace(ana: Person) -> None:
    wanted = {"chats": [told("s1", TABS)], "project_id": str(uuid4())}
    assert_problem(await ana.http.post(CHATS, json=wanted), 404)
    assert (await ana.http.get(CHATS)).json() == {"data": []}


async def test_lists_come_in_pages_that_are_the_callers(ana: Person, ben: Person) -> None:
    for number in range(3):
        await ana.http.post(CHATS, json={"chats": [told(str(number), {**TABS, "content": str(number)})]})
    first = (await ana.http.get(CHATS, params={"limit": 2})).json()
    rest = (await ana.http.get(CHATS, params={"limit": 2, "cursor": first["nextCursor"]})).json()
    assert [each["session"] for each in [*first["data"], *rest["data"]]] == ["2", "1", "0"]
    assert "nextCursor" not in rest
    assert_problem(await ben.http.get(CHATS, params={"cursor": first["nextCursor"]}), 422)

    chat = f"{CHATS}/{rest['data'][0]['id']}"
    page = (await ana.http.get(chat, params={"limit": 2})).json()
    assert [turn["number"] for turn in page["data"]] == [0, 1]
    last = (await ana.http.get(chat, params={"cursor": page["nextCursor"]})).json()
    assert [turn["number"] for turn in last["data"]] == [2]


async def test_a_chat_is_deleted(ana: Person) -> None:
    [chat_id] = (await ana.http.post(CHATS, json={"chats": [told()]})).json()["ids"]
    assert (await ana.http.delete(f"{CHATS}/{chat_id}")).status_code == 204
    assert_problem(await ana.http.delete(f"{CHATS}/{chat_id}"), 404)
    assert_problem(await ana.http.get(f"{CHATS}/{chat_id}"), 404)


async def test_a_workspaces_chat_is_the_authors_alone(ana: Person, ben: Person) -> None:
    shop = (await ana.http.post("/api/workspaces", json={"name": "Shop"})).json()["id"]
    body = {"chats": [told()], "workspace_id": shop}
    assert_problem(await ben.http.post(CHATS, json=body), 404)
    await ana.http.post(f"/api/workspaces/{shop}/members", json={"email": ben.email, "role": "admin"})
    [chat_id] = (await ana.http.post(CHATS, json=body)).json()["ids"]

    assert (await ben.http.get(CHATS, params={"workspace_id": shop})).json() == {"data": []}
    assert_problem(await ben.http.get(f"{CHATS}/{chat_id}"), 404)
    assert_problem(await ben.http.delete(f"{CHATS}/{chat_id}"), 404)
    [mine] = (await ana.http.get(CHATS, params={"workspace_id": shop})).json()["data"]
    assert mine["id"] == chat_id


async def test_consent_is_said_and_taken_back(ana: Person) -> None:
    consent = f"{CHATS}/consent"
    assert (await ana.http.get(consent)).json() == {"data": []}
    agreed = await ana.http.put(consent, json={"granted": True})
    assert (agreed.json()["granted"], agreed.json()["how"]) == (True, "API")
    await ana.http.put(consent, json={"granted": False})
    assert [each["granted"] for each in (await ana.http.get(consent)).json()["data"]] == [False]
    assert_problem(await ana.http.put(consent, json={"granted": True, "workspace_id": str(uuid4())}), 404)


async def test_a_key_for_reading_does_not_write(person: MakePerson) -> None:
    reader = await person("reader@example.com", scopes=("rules:read",))
    assert (await reader.http.get(CHATS)).status_code == 200
    assert_problem(await reader.http.post(CHATS, json={"chats": [told()]}), 403)
    assert_problem(await reader.http.put(f"{CHATS}/consent", json={"granted": True}), 403)


async def test_the_client_does_all_of_it(ana: Person, address: str) -> None:
    async with Recollect(address, key=ana.key) as client:
        imported = await client.chats.add([told("s1", TABS)])
        [chat_id] = imported.ids
        assert chat_id is not None
        [listed] = await client.chats.list()
        assert listed == await client.chats.get(chat_id)
        assert [turn.text for turn in await client.chats.turns(chat_id)][-1] == "Use tabs."
        await client.chats.consent(granted=True)
        assert [each.granted for each in await client.chats.consents()] == [True]
        await client.chats.delete(chat_id)
        with pytest.raises(NotFound):
            await client.chats.get(chat_id)
