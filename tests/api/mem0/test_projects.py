"""Who is calling, and in which project: to mem0's clients a workspace is one."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from mem0 import MemoryClient
from mem0.exceptions import AuthenticationError, MemoryNotFoundError, ValidationError

from tests.api.mem0.clients import Client, MakeClient, remember, texts_of
from tests.conftest import MakePerson, Person

pytestmark = pytest.mark.anyio


async def use(client: Client, project: str) -> None:
    """Have the client's project calls be about another project."""
    client.real.project.config.project_id = project


async def test_a_client_learns_whose_key_it_has(client: Client, ana: Person) -> None:
    assert client.real.org_id == str(ana.id)
    assert client.real.user_email == "ana@example.com"
    [personal] = (await ana.http.get("/api/workspaces")).json()["data"]
    assert client.real.project_id == personal["id"]


@pytest.mark.parametrize("key", ["rk_00000000_of_nobody", "m0-not-one-of-ours"])
async def test_a_wrong_key_is_told_apart_at_once(address: str, key: str) -> None:
    # One of our own, since a client that fails leaves its connections open.
    with httpx.Client() as http, pytest.raises(ValueError, match="Error: ") as told:
        await asyncio.to_thread(MemoryClient, key, address, http)
    assert "{" not in str(told.value)  # a sentence, and no document


async def test_a_key_reaches_as_far_as_its_scopes(client_of: MakeClient, person: MakePerson) -> None:
    reader = await client_of(await person("reader@example.com", scopes=("memory:read",)))
    assert await texts_of(reader) == []
    with pytest.raises(AuthenticationError, match="memory:write"):
        await remember(reader, "I drink tea")
    with pytest.raises(AuthenticationError, match="access:read"):
        await reader.project("get")


async def test_a_project_is_read_and_told_what_to_remember(client: Client) -> None:
    told = await client.project(
        "update",
        custom_instructions="Only what is about food.",
        custom_categories=[{"food": "What somebody eats"}],
        agent_custom_instructions="Only how to serve.",
        multilingual=True,
        decay=False,
    )
    assert told["message"].startswith("Project updated successfully.")

    project = await client.project("get")
    assert project["name"] == "Personal"
    assert project["custom_instructions"] == "Only what is about food."
    assert project["agent_custom_instructions"] == "Only how to serve."
    assert project["custom_categories"] == [{"food": "What somebody eats"}]
    assert (project["is_default"], project["user_role"]) == (True, "OWNER")
    assert [member["email"] for member in project["members"]] == ["ana@example.com"]
    only = await client.project("get", fields=["custom_instructions", "name"])
    assert only == {"name": "Personal", "custom_instructions": "Only what is about food."}

    await client.project("update", custom_instructions="Everything.")
    project = await client.project("get")
    assert (project["custom_instructions"], project["custom_categories"]) == (
        "Everything.",
        [{"food": "What somebody eats"}],
    )


async def test_the_older_names_of_these_calls_work_too(client: Client) -> None:
    await client("update_project", custom_instructions="Only food.")
    assert await client("get_project", fields=["custom_instructions"]) == {
        "custom_instructions": "Only food."
    }


@pytest.mark.parametrize("wish", [{"multilingual": False}, {"decay": True}])
async def test_a_wish_that_is_not_granted_is_refused(client: Client, wish: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="do not decay"):
        await client.project("update", **wish)


async def test_an_unknown_wish_is_refused(client: Client) -> None:
    with pytest.raises(ValidationError, match="memory_depth"):
        await client("update_project", memory_depth="deep", custom_instructions="x")
    assert (await client.project("get"))["custom_instructions"] is None


async def test_a_project_is_made_shared_and_deleted(
    client: Client, client_of: MakeClient, ben: Person
) -> None:
    made = await client.project("create", "Team", description="Ours")
    await use(client, made["project_id"])
    assert (await client.project("get"))["name"] == "Team"

    with pytest.raises(ValidationError, match="e-mail address"):
        await client.project("add_member", "ben", "READER")
    await client.project("add_member", "ben@example.com", "READER")
    members = (await client.project("get_members"))["members"]
    roles = {member["email"]: member["role"] for member in members}
    assert roles == {"ana@example.com": "OWNER", "ben@example.com": "READER"}

    of_ben = await client_of(ben)
    await use(of_ben, made["project_id"])
    assert (await of_ben.project("get"))["user_role"] == "READER"
    with pytest.raises(AuthenticationError):
        await of_ben.project("update", custom_instructions="Mine.")
    with pytest.raises(AuthenticationError):
        await of_ben.project("delete")

    await client.project("update_member", "ben@example.com", "OWNER")
    await of_ben.project("update", custom_instructions="Ours.")
    await client.project("remove_member", "ben@example.com")
    with pytest.raises(MemoryNotFoundError):
        await of_ben.project("get")
    with pytest.raises(MemoryNotFoundError, match="Nobody with that address"):
        await client.project("remove_member", "ben@example.com")

    await client.project("delete")
    with pytest.raises(MemoryNotFoundError):
        await client.project("get")


async def test_memories_go_into_the_project_that_is_named(
    client: Client, client_of: MakeClient, ben: Person
) -> None:
    team = (await client.project("create", "Team"))["project_id"]
    await use(client, team)
    await client.project("add_member", "ben@example.com", "READER")
    of_ben = await client_of(ben)

    await remember(client, "of the team", project_id=team)
    await remember(client, "my own")
    await remember(client, "my own, too", project_id=client.real.project_id)

    async def told(whose: Client) -> list[str]:
        page = await whose("get_all", filters={"user_id": "mia"}, project_id=team, org_id="whatever")
        return [memory["memory"] for memory in page["results"]]

    assert await told(client) == ["of the team"]
    assert await told(of_ben) == ["of the team"]
    assert await texts_of(client) == ["my own, too", "my own"]
    assert await texts_of(of_ben) == []
    found = await of_ben("search", "team", filters={"user_id": "mia"}, project_id=team)
    assert [one["memory"] for one in found["results"]] == ["of the team"]
    with pytest.raises(MemoryNotFoundError, match="you may not do that"):
        await remember(of_ben, "not by a reader", project_id=team)
    await client("delete_all", user_id="mia")
    assert await told(client) == ["of the team"]
    await client("delete_all", user_id="mia", project_id=team)
    assert await told(client) == []


@pytest.mark.parametrize("project", ["00000000-0000-4000-8000-000000000000", "default-project"])
async def test_a_project_of_nobody_is_not_found(client: Client, project: str) -> None:
    filters = {"user_id": "mia"}
    for method, given in (
        ("add", {"user_id": "mia", "infer": False}),
        ("search", {"filters": filters}),
        ("delete_all", {"user_id": "mia"}),
    ):
        text = () if method == "delete_all" else ("tea",)
        with pytest.raises(MemoryNotFoundError, match="no such project"):
            await client(method, *text, project_id=project, **given)
    with pytest.raises(MemoryNotFoundError, match="no such project"):
        await client("get_all", filters=filters, project_id=project)


async def test_profiles_are_not_generated_here_and_that_is_said(client: Client) -> None:
    profile = await client("get_profile", "mia/1")
    assert (profile["status"], profile["entity_id"]) == ("not_enabled", "mia/1")
    assert (await client("get_profile_settings"))["enabled"] is False
    for method, given in (
        ("update_profile_settings", {"enabled": True}),
        ("generate_profile", {"entity_id": "mia"}),
        ("sample_profiles", {"limit": 3}),
    ):
        with pytest.raises(ValidationError, match="not generated here"):
            await client(method, **given)
    with pytest.raises(MemoryNotFoundError, match="no such job"):
        await client("get_profile_job", "job-1")
