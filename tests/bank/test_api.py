"""The bank over HTTP, as its applications use it."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import MakePerson, Person

pytestmark = pytest.mark.anyio


async def test_a_value_comes_back_parsed_under_the_seeds_names(ana: Person) -> None:
    body = {"namespace": "icebreakers", "key": "recent", "value": ["one", "two"]}
    assert (await ana.http.post(ana.memory, json=body)).status_code == 200

    answer = await ana.http.get(ana.memory, params={"namespace": "icebreakers"})

    assert answer.status_code == 200
    [entry] = answer.json()["data"]
    assert set(entry) == {"id", "userId", "namespace", "key", "value", "createdAt", "updatedAt"}
    assert entry["userId"] == str(ana.id)
    assert entry["value"] == ["one", "two"]


async def test_an_empty_namespace_is_exactly_an_empty_list(ana: Person) -> None:
    assert (await ana.http.get(ana.memory)).json() == {"data": []}
