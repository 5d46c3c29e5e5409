"""What takes a model is done after the answer: nobody waits for it, and what became of it can be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from mem0.exceptions import MemoryNotFoundError, ValidationError

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.settings import Settings
from tests.api.mem0.clients import Client, remember, texts_of
from tests.conftest import Person, make_settings, until, working
from tests.support.model_server import Fails, ModelServer, Says

pytestmark = pytest.mark.anyio

MIA = {"user_id": "mia"}
TEA = {"facts": [{"text": "I drink tea", "evidence": "I drink tea"}]}
NOTHING: dict[str, Any] = {"facts": []}
SECRET = "the password is zebra7391"


@pytest.fixture
async def model() -> AsyncIterator[ModelServer]:
    async with ModelServer().running() as server:
        yield server


@pytest.fixture
def settings(home: Path, database_url: str, model: ModelServer) -> Settings:
    return make_settings(home, database_url, **model.as_anthropic())


async def event(client: Client, event_id: str) -> dict[str, Any]:
    # The clients have no call of their own for it; this one fetches whatever it is given.
    found: dict[str, Any] = await client("get_profile_job", f"/v1/event/{event_id}/")
    return found


async def until_done(client: Client, event_id: str) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        found = await event(client, event_id)
        return found if found["status"] in {"SUCCEEDED", "FAILED"} else None

    found: dict[str, Any] = await until(ended)
    return found


async def test_what_takes_a_model_is_queued_and_its_event_tells_how_it_went(
    client: Client, services: Services, model: ModelServer
) -> None:
    model.will(Says(TEA))
    added = await client("add", "I drink tea", user_id="mia", metadata={"a": 1})

    assert added["status"] == "PENDING"
    assert "results" not in added
    waiting = await event(client, added["event_id"])
    assert (waiting["status"], waiting["results"], waiting["completed_at"]) == ("PENDING", [], None)
    assert await texts_of(client) == []

    async with working(services):
        done = await until_done(client, added["event_id"])

    assert (done["status"], done["event_type"], done["error"]) == ("SUCCEEDED", "ADD", None)
    [result] = done["results"]
    assert (result["data"]["memory"], result["event"]) == ("I drink tea", "ADD")
    memory = await client("get", result["id"])
    assert (memory["user_id"], memory["metadata"]) == ("mia", {"a": 1})
    assert done["completed_at"] >= done["started_at"] >= done["created_at"]
    listed = await client("get_profile_job", "/v1/events/")
    assert [one["id"] for one in listed["results"]] == [added["event_id"]]


async def test_what_was_said_is_not_kept_twice(
    client: Client, services: Services, model: ModelServer, database_url: str
) -> None:
    model.will(Says(TEA))
    added = await client("add", f"I drink tea; {SECRET}", user_id="mia")
    assert SECRET in await stored(database_url)
    async with working(services):
        done = await until_done(client, added["event_id"])

    assert SECRET not in await stored(database_url)
    await client("delete", done["results"][0]["id"])
    [result] = (await event(client, added["event_id"]))["results"]
    assert (result["memory"], result["data"]) == (None, {"memory": None})


async def stored(database_url: str) -> str:
    """All that the dialect and the jobs keep, as text."""
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        rows = await connection.execute(
            "select to_jsonb(r)::text from public.mem0_requests r"
            " union all select to_jsonb(r)::text from jobs.runs r"
        )
        return "\n".join(row[0] for row in await rows.fetchall())


async def test_one_that_fails_for_good_says_so(
    client: Client, services: Services, model: ModelServer
) -> None:
    model.will(*[Fails(401)] * 10)
    added = await client("add", "I drink tea", user_id="mia")
    async with working(services):
        done = await until_done(client, added["event_id"])
    assert (done["status"], done["results"]) == ("FAILED", [])
    assert done["error"].endswith(".")
    assert await texts_of(client) == []


async def test_the_project_says_what_to_remember_unless_the_request_does(
    client: Client, services: Services, model: ModelServer
) -> None:
    await client.project(
        "update", custom_instructions="Only of food.", agent_custom_instructions="Only of serving."
    )
    model.will(*[Says(NOTHING)] * 4)
    async with working(services):
        for about in (
            {**MIA},
            {"agent_id": "bob"},
            {**MIA, "custom_instructions": "Only of sport."},
            {**MIA, "includes": "sport", "excludes": "food"},
        ):
            added = await client("add", "I drink tea", **about)
            assert (await until_done(client, added["event_id"]))["status"] == "SUCCEEDED"

    asked = [f"{one.system}\n{one.body}" for one in model.asked]
    assert "Only of food." in asked[0]
    assert "Only of serving." in asked[1]
    assert "Only of sport." in asked[2]
    assert "Only of food." not in asked[2]
    assert "Remember nothing but this: sport" in asked[3]
    assert "Never remember this: food" in asked[3]


async def test_what_cannot_be_added_is_refused_before_it_is_queued(
    client: Client, services: Services
) -> None:
    for messages, about in (("x" * 50_001, MIA), ("   ", MIA), ("I drink tea", {})):
        with pytest.raises(ValidationError):
            await client("add", messages, **about)
    async with services.tenancy.acting_as(SERVICE) as tx:
        assert await services.jobs.list(tx) == []


async def test_what_is_done_at_once_has_an_event_too(client: Client) -> None:
    added = await client("add", "I drink tea", user_id="mia", infer=False)
    told = await event(client, added["event_id"])
    assert (told["status"], told["event_type"]) == ("SUCCEEDED", "ADD")
    assert [result["memory"] for result in told["results"]] == ["I drink tea"]
    deleted = await client("delete_all", user_id="mia")
    told = await event(client, deleted["event_id"])
    assert (told["status"], told["event_type"]) == ("SUCCEEDED", "DELETE")
    with pytest.raises(MemoryNotFoundError, match="no such event"):
        await event(client, str(UUID(int=7)))


# Forgetting


async def test_events_go_in_time_and_those_of_jobs_with_their_jobs(
    client: Client, services: Services, model: ModelServer, database_url: str
) -> None:
    await remember(client, "old")
    queued = await client("add", "I drink tea", user_id="mia")
    assert await services.dialect.purge(services.tenancy) == 0
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("update public.mem0_requests set created_at = now() - interval '400 days'")
        assert await services.dialect.purge(services.tenancy) == 1
        assert (await event(client, queued["event_id"]))["status"] == "PENDING"
        await connection.execute("delete from jobs.runs")
    with pytest.raises(MemoryNotFoundError):
        await event(client, queued["event_id"])


async def test_what_waits_goes_with_its_user(
    client: Client, services: Services, ana: Person, database_url: str
) -> None:
    await client("add", SECRET, user_id="mia")
    assert SECRET in await stored(database_url)
    await services.access.remove_user(ana.email)
    assert SECRET not in await stored(database_url)
