"""Memory nodes of values under keys."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from tests.api.raw import assert_problem
from tests.conftest import Person
from tests.nodes.conformance import At, Conformance

pytestmark = pytest.mark.anyio


class TestConformance(Conformance):
    memory_type = "KEY_VALUE_STORE"
    config: ClassVar = {}
    other_config: ClassVar = {}
    items: ClassVar = [{"key": "city", "value": "Bonn"}, {"key": "guests", "value": {"adults": 2}}]
    the_first: ClassVar = {"key": "city"}

    def shown(self, answer: Any) -> list[Any]:
        return [{"key": each["key"], "value": each["value"]} for each in answer["entries"]]


@pytest.fixture
async def node(ana: Person) -> At:
    defined = At(ana)
    await defined.define("KEY_VALUE_STORE", {})
    return defined


def keys(answer: Any) -> list[str]:
    return [each["key"] for each in answer["entries"]]


async def test_a_value_replaces_the_one_before_it(node: At) -> None:
    first = await node.store({"key": "city", "value": "Bonn"})
    second = await node.store({"key": "city", "value": None})

    assert (await node.retrieve())["entries"] == [second]
    assert second["created_at"] == first["created_at"]
    assert second["updated_at"] > first["updated_at"]
    assert (second["value"], second["expires_at"]) == (None, None)


async def test_a_value_comes_back_as_it_was_sent(node: At) -> None:
    sent = '{"z": [1.0, 1, -0.0, 1e+300, true, null], "a": "\\u00e9\\n", "": {}}'
    await node.store({"key": "any", "value": json.loads(sent)})

    [entry] = (await node.retrieve())["entries"]
    assert json.dumps(entry["value"]) == sent


async def test_keys_are_read_in_pages(node: At) -> None:
    for key in ("d", "a", "c", "b"):
        await node.store({"key": key, "value": 1})

    first = await node.retrieve(limit=2)
    assert (keys(first), first["next"]) == (["a", "b"], "b")
    second = await node.retrieve(limit=2, after=first["next"])
    assert (keys(second), second["next"]) == (["c", "d"], None)
    assert await node.retrieve(after="d") == {"entries": [], "next": None}


async def test_a_page_ends_before_it_grows_too_large_and_the_next_goes_on(node: At) -> None:
    for number in range(18):
        await node.store({"key": f"k{number:02}", "value": "x" * 250_000})

    first = await node.retrieve()
    second = await node.retrieve(after=first["next"])

    assert (len(first["entries"]), first["next"]) == (17, "k16")
    assert (keys(second), second["next"]) == (["k17"], None)


async def test_keys_are_found_and_forgotten_by_how_they_begin(node: At) -> None:
    for key in ("a%b", "a_b", "axb", "b"):
        await node.store({"key": key, "value": 1})

    assert keys(await node.retrieve(prefix="a")) == ["a%b", "a_b", "axb"]
    assert keys(await node.retrieve(prefix="a%")) == ["a%b"]
    assert keys(await node.retrieve(prefix="a", after="a%b", limit=1)) == ["a_b"]
    assert keys(await node.retrieve(key="a")) == []
    assert keys(await node.retrieve(key="axb")) == ["axb"]
    assert await node.forget(prefix="a_") == 1
    assert keys(await node.retrieve()) == ["a%b", "axb", "b"]


async def test_a_value_may_have_256_kb_and_no_more(node: At) -> None:
    largest = "é" * ((262_144 - 2) // 2)
    await node.store({"key": "large", "value": largest})

    refused = await node.ask("store", {"key": "large", "value": largest + "x"})

    assert "256 KB" in assert_problem(refused, 422, "value_too_large")["detail"]
    [entry] = (await node.retrieve(key="large"))["entries"]
    assert entry["value"] == largest


@pytest.mark.parametrize(
    ("verb", "given", "field"),
    [
        ("store", {"value": 1}, "key"),
        ("store", {"key": "k"}, "value"),
        ("store", {"key": "", "value": 1}, "key"),
        ("store", {"key": "k" * 256, "value": 1}, "key"),
        ("store", {"key": 1, "value": 1}, "key"),
        ("store", {"key": "k", "value": 1, "ttl_seconds": 60}, "ttl_seconds"),
        ("retrieve", {"limit": 0}, "limit"),
        ("retrieve", {"limit": 1_001}, "limit"),
        ("retrieve", {"limit": "5"}, "limit"),
        ("retrieve", {"prefix": ""}, "prefix"),
        ("forget", {"key": ""}, "key"),
        ("forget", {"after": "k"}, "after"),
    ],
)
async def test_what_does_not_fit_is_refused_by_name(
    node: At, verb: str, given: dict[str, Any], field: str
) -> None:
    await node.store({"key": "kept", "value": 1})
    problem = assert_problem(await node.ask(verb, given), 422, "invalid_input")
    assert [each["field"] for each in problem["errors"]] == [field]
    assert keys(await node.retrieve()) == ["kept"]
