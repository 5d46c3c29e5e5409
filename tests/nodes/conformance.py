"""What holds for every type of memory node. A new type's test file inherits it and says what it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import uuid4

import httpx
import psycopg
import pytest
from psycopg import sql

from recollect.settings import Settings
from tests.api.raw import assert_problem
from tests.api.serving import serving
from tests.conftest import Person

VERBS = ("store", "retrieve", "forget")
HELD_BY_NODES = """
    select c.table_name from information_schema.columns c
    join information_schema.tables t using (table_schema, table_name)
    where c.table_schema = 'public' and c.column_name = 'memory_node_id' and t.table_type = 'BASE TABLE'
"""


class At:
    """One person's node, over REST."""

    def __init__(self, person: Person, name: str = "scratch") -> None:
        self.http = person.http
        self.path = f"/api/users/{person.id}/nodes/{name}"

    async def define(self, memory_type: str, config: Mapping[str, Any]) -> Any:
        answer = await self.http.put(self.path, json={"memory_type": memory_type, "config": config})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def ask(self, verb: str, given: Mapping[str, Any]) -> httpx.Response:
        return await self.http.post(f"{self.path}/{verb}", json=given)

    async def store(self, item: Mapping[str, Any]) -> Any:
        answer = await self.ask("store", item)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    async def retrieve(self, **query: Any) -> Any:
        answer = await self.ask("retrieve", query)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    async def forget(self, **selection: Any) -> int:
        answer = await self.ask("forget", selection)
        assert answer.status_code == 200, answer.text
        forgotten: int = answer.json()["forgotten"]
        return forgotten


class Conformance:
    memory_type: ClassVar[str]
    config: ClassVar[Mapping[str, Any]]
    other_config: ClassVar[Mapping[str, Any]]
    """The type's way to be set up otherwise; the same, if there is one way alone."""
    items: ClassVar[Sequence[Mapping[str, Any]]]
    """Two that differ, in the order in which they are retrieved."""
    the_first: ClassVar[Mapping[str, Any]]
    """What selects the first of them."""

    def shown(self, answer: Any) -> list[Any]:
        """The items in what ``retrieve`` answered, without what is made along the way."""
        raise NotImplementedError

    @pytest.fixture
    async def node(self, ana: Person) -> At:
        defined = At(ana)
        await defined.define(self.memory_type, self.config)
        return defined

    @pytest.fixture
    async def filled(self, node: At) -> At:
        for item in self.items:
            await node.store(item)
        return node

    async def test_a_node_is_what_it_was_defined_as(self, node: At, ana: Person) -> None:
        found = (await node.http.get(node.path)).json()
        assert (found["user_id"], found["memory_node_id"]) == (str(ana.id), "scratch")
        assert found["memory_type"] == self.memory_type
        assert found["config"].items() >= self.config.items()
        assert (await node.http.get(node.path.rpartition("/")[0])).json() == {"data": [found]}

    async def test_what_is_stored_is_retrieved(self, filled: At) -> None:
        assert self.shown(await filled.retrieve()) == self.items

    async def test_what_is_selected_is_forgotten_and_the_rest_stays(self, filled: At) -> None:
        assert await filled.forget(**self.the_first) == 1
        assert self.shown(await filled.retrieve()) == self.items[1:]
        assert await filled.forget(**self.the_first) == 0

    async def test_all_is_forgotten_if_nothing_is_selected_and_the_node_stays(self, filled: At) -> None:
        assert await filled.forget() == 2
        assert self.shown(await filled.retrieve()) == []
        assert (await filled.http.get(filled.path)).status_code == 200

    async def test_a_repeated_request_to_forget_is_answered_as_the_first_was(self, filled: At) -> None:
        key = {"Idempotency-Key": uuid4().hex}
        answers = [await filled.http.post(f"{filled.path}/forget", json={}, headers=key) for _ in range(2)]
        assert [answer.json() for answer in answers] == [{"forgotten": 2}] * 2

    async def test_two_nodes_are_apart(self, filled: At, ana: Person) -> None:
        other = At(ana, "other")
        await other.define(self.memory_type, self.config)
        assert self.shown(await other.retrieve()) == []
        await other.forget()
        assert self.shown(await filled.retrieve()) == self.items

    async def test_another_tenant_sees_nothing_and_may_use_the_same_name(
        self, filled: At, ana: Person, ben: Person
    ) -> None:
        of_ana = At(ana)
        of_ana.http = ben.http
        for verb in VERBS:
            assert_problem(await of_ana.ask(verb, self.items[0] if verb == "store" else {}), 404)
        for method in ("GET", "DELETE"):
            assert_problem(await ben.http.request(method, filled.path), 404)

        of_ben = At(ben)
        await of_ben.define(self.memory_type, self.config)
        assert self.shown(await of_ben.retrieve()) == []
        assert await of_ben.forget() == 0
        assert (await ben.http.delete(of_ben.path)).status_code == 204
        assert self.shown(await filled.retrieve()) == self.items

    async def test_deleting_a_node_takes_what_it_keeps(self, filled: At, database_url: str) -> None:
        assert await rows_of_nodes(database_url) >= 2

        assert (await filled.http.delete(filled.path)).status_code == 204

        assert await rows_of_nodes(database_url) == 0
        assert_problem(await filled.http.delete(filled.path), 404, "unknown_node")
        await filled.define(self.memory_type, self.config)
        assert self.shown(await filled.retrieve()) == []

    async def test_a_node_that_is_not_defined_is_told_as_such(self, ana: Person) -> None:
        nowhere = At(ana, "nowhere")
        for verb in VERBS:
            answer = await nowhere.ask(verb, self.items[0] if verb == "store" else {})
            assert "define it first" in assert_problem(answer, 404, "unknown_node")["detail"]
        assert_problem(await ana.http.get(nowhere.path), 404, "unknown_node")

    async def test_unknown_fields_are_refused_by_name_and_change_nothing(self, filled: At) -> None:
        wrong = {"memory_type": self.memory_type, "config": {**self.config, "surprise": 1}}
        answers = [
            await filled.http.put(filled.path, json=wrong),
            await filled.ask("store", {**self.items[0], "surprise": 1}),
            await filled.ask("retrieve", {"surprise": 1}),
            await filled.ask("forget", {**self.the_first, "surprise": 1}),
        ]
        for answer in answers:
            problem = assert_problem(answer, 422, "invalid_input")
            assert [each["field"] for each in problem["errors"]] == ["surprise"]
            assert problem["detail"].startswith("surprise: ")
        assert self.shown(await filled.retrieve()) == self.items

    async def test_it_survives_the_server(self, filled: At, settings: Settings) -> None:
        async with (
            serving(settings) as (_, address),
            httpx.AsyncClient(base_url=address, headers=filled.http.headers, timeout=30) as http,
        ):
            filled.http = http
            assert self.shown(await filled.retrieve()) == self.items

    async def test_another_set_up_leaves_what_is_kept(self, filled: At) -> None:
        before = await filled.retrieve()
        changed = await filled.define(self.memory_type, self.other_config)
        assert changed["config"].items() >= self.other_config.items()
        assert await filled.retrieve() == before

    async def test_a_node_does_not_become_another_type(self, filled: At) -> None:
        types = [each["memory_type"] for each in (await filled.http.get("/api/memory-types")).json()["data"]]
        for other in set(types) - {self.memory_type}:
            answer = await filled.http.put(filled.path, json={"memory_type": other})
            assert_problem(answer, 409, "another_memory_type")
        assert self.shown(await filled.retrieve()) == self.items

    async def test_its_description_names_what_it_takes(self, ana: Person) -> None:
        described = {
            each["memory_type"]: each for each in (await ana.http.get("/api/memory-types")).json()["data"]
        }
        of_type = described[self.memory_type]
        assert of_type["description"].endswith(".")
        for name, taken in (
            ("config", self.config),
            ("store", self.items[0]),
            ("retrieve", {}),
            ("forget", self.the_first),
        ):
            assert of_type[name]["additionalProperties"] is False
            assert taken.keys() <= of_type[name].get("properties", {}).keys()


async def rows_of_nodes(database_url: str) -> int:
    """How many rows there are in all tables that say which node they belong to."""
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        counted = 0
        for (table,) in await (await connection.execute(HELD_BY_NODES)).fetchall():
            rows = await connection.execute(sql.SQL("select count(*) from {}").format(sql.Identifier(table)))
            row = await rows.fetchone()
            counted += row[0] if row else 0
        return counted
