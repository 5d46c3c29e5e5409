"""Exports and summaries hold the memories as they are when they are fetched."""

from __future__ import annotations

from uuid import uuid4

import pytest
from mem0.exceptions import MemoryNotFoundError, ValidationError

from tests.api.mem0.clients import Client, MakeClient, remember
from tests.conftest import Person

pytestmark = pytest.mark.anyio

MIA = {"user_id": "mia"}
SCHEMA = '{"type": "object", "properties": {"name": {"type": "string"}}}'


def texts(export: dict[str, list[dict[str, str]]]) -> list[str]:
    return [memory["memory"] for memory in export["memories"]]


async def test_an_export_is_made_and_fetched_by_id_or_by_filters(client: Client) -> None:
    await remember(client, "I drink tea", metadata={"cups": 2})
    await remember(client, "not of mia", user_id="leo")

    made = await client("create_memory_export", SCHEMA, filters=MIA)

    assert "not rewritten to the schema" in made["message"]
    export = await client("get_memory_export", memory_export_id=made["id"])
    assert texts(export) == ["I drink tea"]
    assert export["memories"][0]["metadata"] == {"cups": 2}
    assert await client("get_memory_export", filters=MIA) == export
    assert await client("get_memory_export", user_id="mia") == export


async def test_an_export_keeps_nothing_that_was_forgotten(client: Client) -> None:
    [memory, _] = await remember(client, "I drink tea", "I drink water")
    made = await client("create_memory_export", SCHEMA, user_id="mia")
    await client("delete", memory)
    assert texts(await client("get_memory_export", memory_export_id=made["id"])) == ["I drink water"]


async def test_what_was_not_exported_cannot_be_fetched(
    client: Client, client_of: MakeClient, ben: Person
) -> None:
    made = await client("create_memory_export", SCHEMA, filters=MIA)
    of_ben = await client_of(ben)
    for asked in ({"memory_export_id": str(uuid4())}, {"filters": {"user_id": "leo"}}):
        with pytest.raises(MemoryNotFoundError, match="no such export"):
            await client("get_memory_export", **asked)
    for asked in ({"memory_export_id": made["id"]}, {"filters": MIA}):
        with pytest.raises(MemoryNotFoundError, match="no such export"):
            await of_ben("get_memory_export", **asked)


async def test_an_export_needs_a_schema_and_somebody(client: Client) -> None:
    with pytest.raises(ValidationError, match="schema"):
        await client("create_memory_export", "", filters=MIA)
    with pytest.raises(ValidationError, match="filters need one of"):
        await client("create_memory_export", SCHEMA)
    with pytest.raises(ValidationError, match="filters need one of"):
        await client("get_memory_export")
    with pytest.raises(ValidationError, match="is no operator here"):
        await client("create_memory_export", SCHEMA, filters={**MIA, "cups": {"about": 2}})


async def test_a_summary_is_what_there_is_to_sum_up(client: Client) -> None:
    await remember(client, "I drink tea", "I drink water")
    summary = await client("get_summary", filters=MIA)
    assert [memory["memory"] for memory in summary] == ["I drink water", "I drink tea"]
    with pytest.raises(ValidationError):
        await client("get_summary")
