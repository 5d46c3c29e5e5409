"""Memory nodes, whatever their type."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.db.tenancy import Caller
from recollect.errors import InvalidInput
from recollect.nodes.models import Definition
from tests.api.raw import assert_problem
from tests.conftest import MakePerson, Person
from tests.nodes.conformance import At, rows_of_nodes

pytestmark = pytest.mark.anyio

KEYS = {"memory_type": "KEY_VALUE_STORE"}


async def test_the_types_are_listed_for_whoever_may_read_nodes(person: MakePerson) -> None:
    reader = await person("reader@example.com", scopes=("nodes:read",))
    other = await person("other@example.com", scopes=("bank:read",))

    listed = (await reader.http.get("/api/memory-types")).json()["data"]

    assert [each["memory_type"] for each in listed] == ["KEY_VALUE_STORE", "WORKING_MEMORY"]
    assert_problem(await other.http.get("/api/memory-types"), 403, "not_allowed")


async def test_who_may_only_read_nodes_changes_none(person: MakePerson) -> None:
    reader = await person("reader@example.com", scopes=("nodes:read",))
    node = At(reader)
    for answer in (
        await reader.http.put(node.path, json=KEYS),
        await reader.http.delete(node.path),
        await node.ask("store", {"key": "k", "value": 1}),
        await node.ask("forget", {}),
    ):
        assert_problem(answer, 403, "not_allowed")
    assert_problem(await node.ask("retrieve", {}), 404, "unknown_node")


async def test_an_unknown_type_is_told_with_those_that_there_are(ana: Person) -> None:
    answer = await ana.http.put(At(ana).path, json={"memory_type": "CRYSTAL_BALL"})
    detail = assert_problem(answer, 422, "unknown_memory_type")["detail"]
    assert detail.endswith("There are: KEY_VALUE_STORE, WORKING_MEMORY.")


@pytest.mark.parametrize("name", ["x" * 256, "a b", "-a", ".", "a%2Fb", "é"])
async def test_a_name_that_fits_no_address_is_refused(ana: Person, name: str) -> None:
    answer = await ana.http.put(At(ana, name).path, json=KEYS)
    assert answer.status_code in {404, 405, 422}
    assert (await ana.http.get(f"/api/users/{ana.id}/nodes")).json() == {"data": []}


@pytest.mark.parametrize("name", ["", "a\x00", "a/b", "a b"])
async def test_the_service_refuses_such_names_itself(services: Services, name: str) -> None:
    user: UUID = (await services.access.create_user(NewUser(email="ana@example.com"))).id
    async with services.tenancy.acting_as(Caller.user(user)) as tx:
        with pytest.raises(InvalidInput, match="name of a memory node"):
            await services.nodes.define(tx, user, name, Definition(**KEYS))
        with pytest.raises(InvalidInput, match="name of a memory node"):
            await services.nodes.retrieve(tx, user, name, {})
        with pytest.raises(InvalidInput, match="name of a memory node"):
            await services.nodes.delete(tx, user, name)


async def test_nodes_are_listed_by_name_in_pages(ana: Person) -> None:
    path = f"/api/users/{ana.id}/nodes"
    for name in ("c", "a", "b"):
        await At(ana, name).define("KEY_VALUE_STORE", {})

    first = (await ana.http.get(path, params={"limit": 2})).json()
    second = (await ana.http.get(path, params={"limit": 2, "cursor": first["nextCursor"]})).json()

    assert [each["memory_node_id"] for each in first["data"]] == ["a", "b"]
    assert [each["memory_node_id"] for each in second["data"]] == ["c"]
    assert "nextCursor" not in second


async def test_nodes_go_with_their_user(
    services: Services, ana: Person, ben: Person, database_url: str
) -> None:
    for person in (ana, ben):
        await At(person).define("KEY_VALUE_STORE", {})
        await At(person).store({"key": "k", "value": person.email})

    await services.access.remove_user(ana.email)

    assert await rows_of_nodes(database_url) == 2
    assert (await At(ben).retrieve())["entries"][0]["value"] == ben.email


async def test_ten_that_define_and_store_at_once_all_succeed(ana: Person) -> None:
    nodes = [At(ana) for _ in range(10)]
    await asyncio.gather(*(node.define("KEY_VALUE_STORE", {}) for node in nodes))
    await asyncio.gather(*(node.store({"key": "same", "value": number}) for number, node in enumerate(nodes)))
    assert len((await nodes[0].retrieve())["entries"]) == 1
