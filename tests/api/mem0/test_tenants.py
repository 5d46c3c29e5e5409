"""Two tenants who call their users the same know nothing of each other, whatever they ask for."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import httpx
import pytest
from mem0.exceptions import AuthenticationError, MemoryNotFoundError

from recollect.api.description import routes_of
from recollect.app import create_app
from recollect.bootstrap import Services
from tests.api.mem0.clients import Client, MakeClient, remember, texts_of
from tests.conftest import Person

pytestmark = pytest.mark.anyio

MIA = {"user_id": "mia"}
# What makes a request valid, so that it is the missing key alone that it is refused for.
BODY: dict[str, Any] = {
    **MIA,
    "filters": MIA,
    "messages": "x",
    "infer": False,
    "query": "x",
    "text": "x",
    "schema": "x",
    "memory_id": str(uuid4()),
    "memories": [{"memory_id": str(uuid4()), "text": "x"}],
    "name": "x",
    "url": "http://127.0.0.1:9/",
    "event_types": ["memory_add"],
    "email": "x@example.com",
}
PROJECT = {"name": "x"}
QUERY = {**MIA, "email": "x@example.com"}


@pytest.fixture
async def other(client_of: MakeClient, ben: Person) -> Client:
    return await client_of(ben)


async def test_users_of_the_same_name_are_not_the_same(client: Client, other: Client) -> None:
    await remember(client, "ana's mia drinks tea")
    await remember(other, "ben's mia drinks tea")

    for whose, owner in ((client, "ana"), (other, "ben")):
        assert await texts_of(whose) == [f"{owner}'s mia drinks tea"]
        found = await whose("search", "tea", filters=MIA)
        assert [one["memory"] for one in found["results"]] == [f"{owner}'s mia drinks tea"]
        assert [one["total_memories"] for one in (await whose("users"))["results"]] == [1]
    await other("reset")
    assert await texts_of(client) == ["ana's mia drinks tea"]


async def test_a_memory_of_another_tenant_is_as_if_it_were_not_there(client: Client, other: Client) -> None:
    [memory] = await remember(client, "ana's")
    added = await client("add", "ana's, too", user_id="mia", infer=False)

    for method, *given in (
        ("get",),
        ("delete",),
        ("history",),
        ("feedback", "POSITIVE"),
    ):
        with pytest.raises(MemoryNotFoundError):
            await other(method, memory, *given)
    for change in ({"text": "ben's"}, {"metadata": {"of": "ben"}}, {"expiration_date": None}):
        with pytest.raises(MemoryNotFoundError):
            await other("update", memory, **change)
    with pytest.raises(MemoryNotFoundError):
        await other("delete", memory, delete_linked=True)
    with pytest.raises(MemoryNotFoundError):
        await other("batch_update", [{"memory_id": memory, "text": "ben's"}])
    with pytest.raises(MemoryNotFoundError):
        await other("batch_delete", [{"memory_id": memory}])
    with pytest.raises(MemoryNotFoundError, match="no such event"):
        await other("get_profile_job", f"/v1/event/{added['event_id']}/")
    with pytest.raises(MemoryNotFoundError):
        await other("get_all", filters=MIA, project_id=client.real.project_id)
    with pytest.raises(MemoryNotFoundError):
        await other("add", "ben's", user_id="mia", infer=False, project_id=client.real.project_id)

    assert await texts_of(client) == ["ana's, too", "ana's"]
    assert [step["event"] for step in await client("history", memory)] == ["ADD"]


async def test_a_key_that_was_taken_back_opens_nothing(client: Client, ana: Person) -> None:
    [key] = (await ana.http.get("/api/auth/keys")).json()["data"]
    await ana.http.delete(f"/api/auth/keys/{key['id']}")
    with pytest.raises(AuthenticationError, match=r"^[A-Z][^{]*$"):
        await client("get_all", filters=MIA)


async def test_nobody_gets_in_without_a_key(services: Services, anonymous: httpx.AsyncClient) -> None:
    asked = [
        (method, route.path)
        for route in routes_of(create_app(services))
        if "mem0" in route.tags
        for method in sorted(route.methods or ())
    ]
    assert len(asked) > 35
    for method, path in asked:
        filled = re.sub(r"{\w+(:path)?}", str(uuid4()), path.replace("{entity_type}", "user"))
        body = PROJECT if method == "PATCH" else BODY
        for credential in (None, "Token rk_00000000_of_nobody", "Basic eDp5"):
            headers = {"Authorization": credential} if credential else {}
            answer = await anonymous.request(method, filled, json=body, params=QUERY, headers=headers)
            assert answer.status_code == 401, f"{method} {path}"
            assert answer.headers["content-type"] == "application/json"
            assert isinstance(answer.json()["detail"], str)
