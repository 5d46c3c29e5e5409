"""Webhooks by mem0's calls are webhooks of the workspace."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from mem0.exceptions import AuthenticationError, MemoryNotFoundError, ValidationError

from recollect.settings import Settings
from tests.api.mem0.clients import Client, MakeClient
from tests.conftest import Person, make_settings

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:9/hook"


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, webhooks_allow_private=True)


async def test_a_webhook_is_made_listed_changed_and_removed(client: Client, ana: Person) -> None:
    project = client.real.project_id
    made = await client("create_webhook", URL, "Log", project, ["memory_add", "memory_delete"])
    assert made["secret"].startswith("whsec_")
    assert (made["project"], made["is_active"]) == (project, True)

    [listed] = await client("get_webhooks", project)
    assert {name: listed[name] for name in ("webhook_id", "name", "url", "event_types")} == {
        "webhook_id": made["webhook_id"],
        "name": "Log",
        "url": URL,
        "event_types": ["memory_add", "memory_delete"],
    }
    assert "secret" not in listed
    native = (await ana.http.get(f"/api/workspaces/{project}/webhooks/{made['webhook_id']}")).json()
    assert native["types"] == ["memory.added", "memory.deleted"]

    changed = await client(
        "update_webhook", made["webhook_id"], name="Other", url=f"{URL}/2", event_types=["memory_update"]
    )
    assert changed["message"] == "Webhook updated successfully"
    [listed] = await client("get_webhooks", project)
    assert (listed["name"], listed["url"], listed["event_types"]) == ("Other", f"{URL}/2", ["memory_update"])

    assert (await client("delete_webhook", made["webhook_id"]))["message"] == "Webhook deleted successfully"
    assert await client("get_webhooks", project) == []


async def test_one_that_hears_everything_hears_of_memories(client: Client, ana: Person) -> None:
    project = client.real.project_id
    await ana.http.post(f"/api/workspaces/{project}/webhooks", json={"url": URL})
    [listed] = await client("get_webhooks", project)
    assert listed["event_types"] == ["memory_add", "memory_update", "memory_delete"]


async def test_what_never_happens_cannot_be_heard_of(client: Client) -> None:
    with pytest.raises(ValidationError, match="memory_categorize never happens here"):
        await client("create_webhook", URL, "x", client.real.project_id, ["memory_categorize"])
    with pytest.raises(ValidationError, match="http"):
        await client("create_webhook", "ftp://example.com", "x", client.real.project_id, ["memory_add"])


async def test_webhooks_of_others_are_not_there(client: Client, client_of: MakeClient, ben: Person) -> None:
    made = await client("create_webhook", URL, "Log", client.real.project_id, ["memory_add"])
    of_ben = await client_of(ben)
    for webhook in (made["webhook_id"], str(uuid4())):
        with pytest.raises(MemoryNotFoundError):
            await of_ben("update_webhook", webhook, name="Mine")
        with pytest.raises(MemoryNotFoundError):
            await of_ben("update_webhook", webhook, url=f"{URL}/ben")
        with pytest.raises(MemoryNotFoundError):
            await of_ben("delete_webhook", webhook)
    for project in (client.real.project_id, str(uuid4()), "no-project"):
        with pytest.raises(MemoryNotFoundError):
            await of_ben("get_webhooks", project)
        with pytest.raises((MemoryNotFoundError, AuthenticationError)):
            await of_ben("create_webhook", URL, "Mine", project, ["memory_add"])
    assert len(await client("get_webhooks", client.real.project_id)) == 1
