"""Many memories at once: whole users, batches, everything."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from mem0.client.types import DeleteAllMemoryOptions
from mem0.exceptions import MemoryNotFoundError, ValidationError

from tests.api.mem0.clients import Client, remember, texts_of
from tests.api.mem0.test_memories import ODD_NAMES
from tests.conftest import Person

pytestmark = pytest.mark.anyio


@pytest.fixture
async def crowd(client: Client) -> None:
    await remember(client, "of mia", user_id="mia")
    await remember(client, "of mia with bob", user_id="mia", agent_id="bob")
    await remember(client, "of bob", user_id=None, agent_id="bob")
    await remember(client, "of the shop", user_id=None, app_id="shop")
    await remember(client, "of monday", user_id=None, run_id="monday")


async def everything(client: Client) -> set[str]:
    anybody = {"OR": [{name: "*"} for name in ("user_id", "agent_id", "app_id", "run_id")]}
    return set(await texts_of(client, **anybody))


ALL = {"of mia", "of mia with bob", "of bob", "of the shop", "of monday"}


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize(
    ("given", "deleted"),
    [
        ({"user_id": "mia"}, {"of mia", "of mia with bob"}),
        ({"user_id": "mia", "agent_id": "bob"}, {"of mia with bob"}),
        ({"user_id": "mia", "agent_id": "*"}, {"of mia with bob"}),
        ({"agent_id": "*"}, {"of mia with bob", "of bob"}),
        ({"user_id": "*", "app_id": "*"}, {"of mia", "of mia with bob", "of the shop"}),
        ({"user_id": "*", "agent_id": "*", "app_id": "*", "run_id": "*"}, ALL),
        ({"user_id": "nobody"}, set()),
    ],
)
async def test_all_of_somebody_are_deleted_and_no_others(
    client: Client, given: dict[str, str], deleted: set[str]
) -> None:
    answer = await client("delete_all", **given)
    assert answer["message"]
    assert await everything(client) == ALL - deleted


@pytest.mark.usefixtures("crowd")
async def test_typed_options_delete_by_filters(client: Client) -> None:
    await client("delete_all", options=DeleteAllMemoryOptions(filters={"user_id": "mia"}))
    assert await everything(client) == ALL - {"of mia", "of mia with bob"}


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize("given", [{}, {"filters": {"mood": "*"}}, {"filters": "no filter"}])
async def test_nothing_is_deleted_of_nobody_in_particular(client: Client, given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        await client("delete_all", **given)
    assert await everything(client) == ALL


async def test_what_has_expired_or_was_superseded_is_deleted_too(client: Client) -> None:
    await remember(client, "gone", expiration_date="2020-01-01")
    await client("delete_all", user_id="mia")
    shown = await client("get_all", filters={"user_id": "mia"}, show_expired=True)
    assert shown["results"] == []


# Whom memories are about


@pytest.mark.usefixtures("crowd")
async def test_everybody_with_memories_is_listed(client: Client) -> None:
    listed = await client("users")
    found = {(one["type"], one["name"], one["total_memories"]) for one in listed["results"]}
    assert found == {
        ("user", "mia", 2),
        ("agent", "bob", 2),
        ("app", "shop", 1),
        ("run", "monday", 1),
    }
    assert (listed["count"], listed["next"], listed["previous"]) == (4, None, None)
    assert (listed["total_users"], listed["total_runs"]) == (1, 1)


@pytest.mark.usefixtures("crowd")
async def test_entities_come_in_pages_too(ana: Person) -> None:
    first = (await ana.http.get("/v1/entities/", params={"page": 1, "page_size": 3})).json()
    assert (first["count"], len(first["results"])) == (4, 3)
    second = (await ana.http.get(first["next"])).json()
    assert [one["name"] for one in second["results"]] == ["mia"]
    assert second["next"] is None


@pytest.mark.usefixtures("crowd")
async def test_somebody_is_forgotten(client: Client) -> None:
    await client("delete_users", agent_id="bob")
    assert await everything(client) == ALL - {"of bob", "of mia with bob"}
    await client("delete_users", run_id="monday")
    await client("delete_users", app_id="shop")
    assert await everything(client) == {"of mia"}
    assert [one["name"] for one in (await client("users"))["results"]] == ["mia"]


async def test_whoever_is_called_oddly_can_be_forgotten(client: Client) -> None:
    left = {"mia", *ODD_NAMES}
    for name in left:
        await remember(client, name, user_id=name)
    for name in ODD_NAMES:
        await client("delete_users", user_id=name)
        left.remove(name)
        assert await everything(client) == left


@pytest.mark.usefixtures("crowd")
async def test_a_reset_leaves_nothing(client: Client) -> None:
    await client("reset")
    assert await everything(client) == set()
    with pytest.raises(ValueError, match="No entities"):
        await client("reset")


@pytest.mark.usefixtures("crowd")
async def test_older_clients_forget_by_the_older_address(ana: Person, client: Client) -> None:
    assert (await ana.http.delete("/v1/entities/user/mia/")).status_code == 200
    assert (await ana.http.delete("/v1/entities/planet/mars/")).status_code == 400
    assert await everything(client) == ALL - {"of mia", "of mia with bob"}


# Batches


async def test_a_batch_is_changed_whole(client: Client) -> None:
    first, second = await remember(client, "one", "two", metadata={"a": 1})

    answer = await client(
        "batch_update",
        [{"memory_id": second, "text": "zwei", "metadata": {"b": 2}}, {"memory_id": first, "text": "eins"}],
    )

    assert answer == {"message": "Successfully updated 2 memories"}
    assert await texts_of(client) == ["zwei", "eins"]
    assert (await client("get", first))["metadata"] == {"a": 1}
    assert (await client("get", second))["metadata"] == {"b": 2}
    found = await client("search", "eins", filters={"user_id": "mia"})
    assert found["results"][0]["id"] == first


@pytest.mark.parametrize("place", [0, 1])
async def test_a_batch_with_somebody_missing_changes_nothing(client: Client, place: int) -> None:
    kept = await remember(client, "one", "two")
    # Of ids that are sorted, the first and the last.
    missing = ["00000000-0000-4000-8000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff"][place]

    for change in ({"text": "changed"}, {"metadata": {"changed": True}}):
        with pytest.raises(MemoryNotFoundError):
            await client("batch_update", [{"memory_id": one, **change} for one in (*kept, missing)])
    with pytest.raises(MemoryNotFoundError, match="none was deleted"):
        await client("batch_delete", [{"memory_id": one} for one in (*kept, missing)])

    listed = await client("get_all", filters={"user_id": "mia"})
    assert [(one["memory"], one["metadata"]) for one in listed["results"]] == [("two", {}), ("one", {})]


async def test_a_batch_is_deleted_whole(client: Client) -> None:
    first, second, _ = await remember(client, "one", "two", "three")
    answer = await client("batch_delete", [{"memory_id": first}, {"memory_id": second}, {"memory_id": first}])
    assert answer == {"message": "Successfully deleted 2 memories"}
    assert await texts_of(client) == ["three"]


async def test_a_batch_has_its_bounds(client: Client) -> None:
    thousand = await remember(client, *(f"turn {number}" for number in range(1_000)))
    for method in ("batch_update", "batch_delete"):
        with pytest.raises(ValidationError, match="1000"):
            await client(method, [{"memory_id": str(uuid4()), "text": "x"}] * 1_001)
        with pytest.raises(ValidationError):
            await client(method, [])
        with pytest.raises(ValidationError, match="not a UUID"):
            await client(method, [{"memory_id": "x", "text": "x"}])
    with pytest.raises(ValidationError, match="nothing to change"):
        await client("batch_update", [{"memory_id": thousand[0]}])
    changes = [{"memory_id": one, "text": f"changed {one}"} for one in thousand]
    assert await client("batch_update", changes) == {"message": "Successfully updated 1000 memories"}
    await client("batch_delete", [{"memory_id": one} for one in thousand])
    assert await texts_of(client) == []


async def test_what_a_memory_superseded_goes_with_it_if_that_is_wanted(client: Client) -> None:
    [old] = (await client("add", "I live in Rome.", user_id="mia"))["results"]
    results = (await client("add", "I live in Oslo.", user_id="mia"))["results"]
    by_event = {result["event"]: result for result in results}
    assert by_event["DELETE"]["id"] == old["id"]
    new = by_event["ADD"]
    told = await client("get_all", filters={"user_id": "mia"})
    assert [one["memory"] for one in told["results"]] == [new["memory"]]
    every = await client("get_all", filters={"user_id": "mia"}, latest_only=False)
    assert [one["replaced_by"] for one in every["results"]] == [None, new["id"]]
    events = [step["event"] for step in await client("history", old["id"])]
    assert events == ["ADD", "DELETE"]

    answer = await client("delete", new["id"], delete_linked=True)

    assert answer["cascade_count"] == 1
    assert (await client("get_all", filters={"user_id": "mia"}, latest_only=False))["results"] == []
    with pytest.raises(MemoryNotFoundError):
        await client("delete", new["id"], delete_linked=True)
