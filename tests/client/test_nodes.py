"""Memory nodes through the Python client, against a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from recollect.client import MemoryNode, Recollect
from recollect.errors import Conflict, InvalidInput, NotFound
from tests.client.relay import Relay, relaying
from tests.conftest import Person

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(address: str, ana: Person) -> AsyncIterator[Recollect]:
    async with Recollect(address, key=ana.key) as opened:
        yield opened


@pytest.fixture
async def node(client: Recollect, ana: Person) -> MemoryNode:
    found = client.nodes.node(ana.id, "scratch")
    await found.define("WORKING_MEMORY", {"ttl_seconds": 600})
    return found


@pytest.fixture
async def relay(address: str) -> AsyncIterator[Relay]:
    async with relaying(address) as found:
        yield found


async def test_what_is_stored_is_retrieved_and_forgotten(node: MemoryNode) -> None:
    stored = await node.store({"key": "step", "value": {"number": 3}})
    await node.store({"key": "plan", "value": "read", "ttl_seconds": 5})

    assert (await node.retrieve({"key": "step"})) == {"entries": [stored], "next": None}
    assert [each["key"] for each in (await node.retrieve())["entries"]] == ["plan", "step"]
    assert await node.forget({"key": "step"}) == 1
    assert await node.forget({}) == 1
    assert (await node.retrieve())["entries"] == []


async def test_a_node_is_defined_listed_and_deleted(client: Recollect, node: MemoryNode, ana: Person) -> None:
    defined = await node.get()
    assert (defined.memory_type, defined.config) == ("WORKING_MEMORY", {"ttl_seconds": 600})
    assert await client.nodes.list(ana.id) == [defined]
    with pytest.raises(Conflict) as another:
        await node.define("KEY_VALUE_STORE")
    assert another.value.code == "another_memory_type"

    await node.delete()

    assert await client.nodes.list(ana.id) == []
    for work in (node.get(), node.retrieve(), node.store({"key": "k", "value": 1}), node.delete()):
        with pytest.raises(NotFound) as gone:
            await work
        assert gone.value.code == "unknown_node"


async def test_a_list_is_whole_however_long(client: Recollect, ana: Person, database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            "insert into memory_nodes (user_id, memory_node_id, memory_type)"
            " select %s, n::text, 'KEY_VALUE_STORE' from generate_series(1, 1001) n",
            [ana.id],
        )
    assert len({each.memory_node_id for each in await client.nodes.list(ana.id)}) == 1001


async def test_types_are_described(client: Recollect) -> None:
    described = {each.memory_type: each for each in await client.nodes.types()}
    assert described["WORKING_MEMORY"].store["required"] == ["key", "value"]


async def test_what_cannot_be_sent_is_told_before_it_is(
    client: Recollect, node: MemoryNode, ana: Person
) -> None:
    with pytest.raises(InvalidInput, match="user_id"):
        client.nodes.node("nonsense", "scratch")
    with pytest.raises(InvalidInput, match="memory_node_id: letters"):
        client.nodes.node(ana.id, "../other")
    with pytest.raises(InvalidInput, match="JSON"):
        await node.store({"key": "k", "value": object()})
    with pytest.raises(InvalidInput, match="surprise"):
        await node.retrieve({"surprise": 1})


async def test_a_lost_answer_is_told_again_and_hides_no_deletion(
    node: MemoryNode, relay: Relay, ana: Person
) -> None:
    await node.store({"key": "k", "value": 1})
    async with Recollect(relay.address, key=ana.key) as client:
        relayed = client.nodes.node(ana.id, "scratch")
        relay.lost_answers = 1
        assert await relayed.forget({}) == 1
        relay.lost_answers = 1
        await relayed.delete()
    with pytest.raises(NotFound):
        await node.get()
