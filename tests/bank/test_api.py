"""The bank over HTTP, as its applications use it."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import Person

pytestmark = pytest.mark.anyio


async def test_a_value_comes_back_parsed_under_the_documented_names(ana: Person) -> None:
    body = {"namespace": "icebreakers", "key": "recent", "value": ["one", "two"]}
    assert (await ana.http.post(ana.memory, json=body)).status_code == 200

    answer = await ana.http.get(ana.memory, params={"namespace": "icebreakers"})

    assert answer.status_code == 200
    [entry] = answer.json()["data"]
    assert set(entry) == {"id", "userId", "namespace", "key", "value", "createdAt", "updatedAt"}
    assert entry["userId"] == str(ana.id)
    assert entry["value"] == ["one", "two"]


async def test_an_empty_namespace_is_exactly_an_empty_list(ana: Person) -> None:
    assert (await ana.http.get(ana.memory)).json() == {"data": []}


async def test_a_second_value_under_a_key_replaces_the_first(ana: Person) -> None:
    first = (await ana.http.post(ana.memory, json={"key": "tone", "value": "warm"})).json()["data"]
    second = (await ana.http.post(ana.memory, json={"key": "tone", "value": "dry"})).json()["data"]

    [entry] = (await ana.http.get(ana.memory)).json()["data"]
    assert entry == second
    assert (second["id"], second["createdAt"]) == (first["id"], first["createdAt"])
    assert second["updatedAt"] > first["updatedAt"]


async def test_namespaces_are_apart(ana: Person) -> None:
    await ana.http.post(ana.memory, json={"key": "k", "value": 1, "namespace": "a"})
    await ana.http.post(ana.memory, json={"key": "k", "value": 2, "namespace": "b"})

    [in_a] = (await ana.http.get(ana.memory, params={"namespace": "a"})).json()["data"]
    assert in_a["value"] == 1
    listed = (await ana.http.get(f"{ana.memory}/namespaces")).json()["data"]
    assert [(each["namespace"], each["entries"]) for each in listed] == [("a", 1), ("b", 1)]


async def test_a_deleted_key_is_gone_and_cannot_be_deleted_twice(ana: Person) -> None:
    await ana.http.post(ana.memory, json={"key": "k", "value": 1, "namespace": "n"})
    where = {"key": "k", "namespace": "n"}

    assert (await ana.http.delete(ana.memory, params={"key": "k"})).status_code == 404
    assert (await ana.http.delete(ana.memory, params=where)).status_code == 204
    again = await ana.http.delete(ana.memory, params=where)
    assert (again.status_code, again.json()["code"]) == (404, "unknown_key")
    assert (await ana.http.get(ana.memory, params={"namespace": "n"})).json() == {"data": []}


async def test_one_entry_can_be_read_alone(ana: Person) -> None:
    await ana.http.post(ana.memory, json={"key": "k", "value": None})
    found = await ana.http.get(f"{ana.memory}/entry", params={"key": "k"})
    assert found.json()["data"]["value"] is None
    missing = await ana.http.get(f"{ana.memory}/entry", params={"key": "other"})
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown_key")


async def test_pages_hold_every_entry_once_in_order(ana: Person) -> None:
    keys = [f"k{number:02}" for number in range(25)]
    for key in reversed(keys):
        await ana.http.post(ana.memory, json={"key": key, "value": key})

    seen, cursor, pages = [], None, 0
    while True:
        query = {"limit": "10"} | ({"cursor": cursor} if cursor else {})
        page = (await ana.http.get(ana.memory, params=query)).json()
        seen += [entry["key"] for entry in page["data"]]
        pages += 1
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert (seen, pages) == (keys, 3)


async def test_writers_who_append_at_once_lose_no_entry(ana: Person) -> None:
    async def append(item: int) -> int:
        body = {"key": "recent", "item": item, "keep": 100, "namespace": "icebreakers"}
        return (await ana.http.post(f"{ana.memory}/append", json=body)).status_code

    assert set(await asyncio.gather(*map(append, range(40)))) == {200}
    [entry] = (await ana.http.get(ana.memory, params={"namespace": "icebreakers"})).json()["data"]
    assert sorted(entry["value"]) == list(range(40))


async def test_appending_keeps_the_last_entries_in_order(ana: Person) -> None:
    for item in range(7):
        await ana.http.post(f"{ana.memory}/append", json={"key": "recent", "item": item, "keep": 3})
    [entry] = (await ana.http.get(ana.memory)).json()["data"]
    assert entry["value"] == [4, 5, 6]


async def test_nothing_is_appended_to_what_is_not_a_list(ana: Person) -> None:
    await ana.http.post(ana.memory, json={"key": "k", "value": "text"})
    refused = await ana.http.post(f"{ana.memory}/append", json={"key": "k", "item": 1})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_a_list")
    [entry] = (await ana.http.get(ana.memory)).json()["data"]
    assert entry["value"] == "text"


async def test_a_list_that_would_grow_too_large_stays_as_it_was(ana: Person) -> None:
    body = {"key": "k", "item": "x" * 6000}
    assert (await ana.http.post(f"{ana.memory}/append", json=body)).status_code == 200
    refused = await ana.http.post(f"{ana.memory}/append", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "value_too_large")
    [entry] = (await ana.http.get(ana.memory)).json()["data"]
    assert len(entry["value"]) == 1


async def test_an_admin_lists_and_clears_a_users_memory(ana: Person, admin: Person) -> None:
    for namespace in ("a", "b", "c"):
        await ana.http.post(ana.memory, json={"key": "k", "value": 1, "namespace": namespace})
    path = f"/api/admin/users/{ana.id}/memory"

    page = (await admin.http.get(path, params={"limit": 2})).json()
    rest = (await admin.http.get(path, params={"limit": 2, "cursor": page["nextCursor"]})).json()
    assert [entry["namespace"] for entry in page["data"] + rest["data"]] == ["a", "b", "c"]

    assert (await admin.http.delete(path, params={"namespace": "b"})).json() == {"deleted": 1}
    assert (await admin.http.delete(path)).json() == {"deleted": 2}
    assert (await ana.http.get(f"{ana.memory}/namespaces")).json() == {"data": []}


async def test_the_admin_endpoints_are_for_admins(ana: Person, ben: Person) -> None:
    for path in (f"/api/admin/users/{ana.id}/memory", f"/api/admin/users/{ben.id}/memory"):
        assert (await ana.http.get(path)).status_code == 403
        assert (await ana.http.delete(path)).status_code == 403


async def test_the_longest_names_do_not_break_paging(ana: Person, admin: Person) -> None:
    for key in ("\x01" * 256, "\x02" * 256):
        body = {"namespace": "\x01" * 256, "key": key, "value": 1}
        assert (await ana.http.post(ana.memory, json=body)).status_code == 200
    path = f"/api/admin/users/{ana.id}/memory"
    page = (await admin.http.get(path, params={"limit": 1})).json()
    rest = await admin.http.get(path, params={"limit": 1, "cursor": page["nextCursor"]})
    assert [entry["key"] for entry in rest.json()["data"]] == ["\x02" * 256]
