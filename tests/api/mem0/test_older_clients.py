"""Addresses that mem0's clients asked before version 3 of its API, and some still do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Person

pytestmark = pytest.mark.anyio

MIA = {"user_id": "mia"}


async def post(person: Person, path: str, body: dict[str, Any], **more: Any) -> Any:
    answer = await person.http.post(path, json=body, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_adding_answers_with_a_list(ana: Person) -> None:
    body = {"messages": [{"role": "user", "content": "I drink tea"}], **MIA, "infer": False}
    [added] = await post(ana, "/v1/memories/", body)
    assert (added["memory"], added["event"]) == ("I drink tea", "ADD")
    again = await post(ana, "/v1/memories/", {**body, "output_format": "v1.1"})
    assert again == {"results": [{**added, "event": "NONE"}], "relations": []}


async def test_searching_answers_with_a_list(ana: Person) -> None:
    await post(ana, "/v1/memories/", {"messages": "I drink tea", **MIA, "infer": False})
    for path, scope in (("/v1/memories/search/", MIA), ("/v2/memories/search/", {"filters": MIA})):
        [found] = await post(ana, path, {"query": "tea", "limit": 5, **scope})
        assert found["memory"] == "I drink tea"
        assert found["score"] > 0.1


async def test_listing_answers_with_a_list_unless_a_page_is_asked_for(ana: Person) -> None:
    messages = [{"role": "user", "content": f"turn {number}"} for number in range(3)]
    await post(ana, "/v1/memories/", {"messages": messages, **MIA, "infer": False})
    assert len(await post(ana, "/v2/memories/", {"filters": MIA})) == 3
    paged = await post(ana, "/v2/memories/", {"filters": MIA}, params={"page": 2, "page_size": 2})
    assert (paged["count"], len(paged["results"])) == (3, 1)
    listed = await ana.http.get("/v1/memories/", params=MIA)
    assert [memory["memory"] for memory in listed.json()] == ["turn 2", "turn 1", "turn 0"]
    first = await ana.http.get("/v1/memories/", params={**MIA, "page": 1, "page_size": 1})
    assert first.json()["count"] == 3
    assert (await ana.http.get("/v1/memories/")).status_code == 400
