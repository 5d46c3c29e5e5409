"""A POST with an Idempotency-Key happens once, however often it is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import psycopg
import pytest

from tests.api.raw import assert_problem
from tests.conftest import Person

pytestmark = pytest.mark.anyio


async def append(person: Person, key: str, item: Any = 1, **headers: str) -> httpx.Response:
    return await person.http.post(
        f"{person.memory}/append",
        json={"key": "list", "item": item, "keep": 1000},
        headers={"Idempotency-Key": key, **headers},
    )


async def items(person: Person) -> Any:
    return (await person.http.get(f"{person.memory}/entry", params={"key": "list"})).json()["data"]["value"]


async def test_50_times_at_once_is_one_effect_and_one_answer(ana: Person) -> None:
    answers = await asyncio.gather(*(append(ana, "once") for _ in range(50)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["content-type"] for answer in answers}) == 1
    assert sorted(answer.headers.get("idempotency-replayed", "") for answer in answers) == [
        "",
        *["true"] * 49,
    ]
    assert await items(ana) == [1]


async def test_the_answer_is_the_first_one_even_after_other_changes(ana: Person) -> None:
    first = await append(ana, "once")
    await append(ana, "another")
    again = await append(ana, "once")
    assert again.content == first.content
    assert await items(ana) == [1, 1]


async def test_another_request_with_the_key_is_refused(ana: Person) -> None:
    await append(ana, "once")
    assert_problem(await append(ana, "once", item=2), 422, "idempotency_key_reused")
    elsewhere = await ana.http.post(
        ana.memory, json={"key": "k", "value": 1}, headers={"Idempotency-Key": "once"}
    )
    assert_problem(elsewhere, 422, "idempotency_key_reused")
    assert await items(ana) == [1]


async def test_the_same_key_of_another_user_is_another_key(ana: Person, ben: Person) -> None:
    assert (await append(ana, "once", item="ana's")).status_code == 200
    answer = await append(ben, "once", item="ben's")
    assert "idempotency-replayed" not in answer.headers
    assert (await items(ana), await items(ben)) == (["ana's"], ["ben's"])


async def test_a_failed_request_can_be_repeated(ana: Person) -> None:
    await ana.http.post(ana.memory, json={"key": "list", "value": "not a list"})
    assert_problem(await append(ana, "once"), 409, "not_a_list")
    too_large = "x" * 20_000
    assert_problem(await append(ana, "other", item=too_large), 409, "not_a_list")

    await ana.http.delete(ana.memory, params={"key": "list"})

    assert (await append(ana, "once")).status_code == 200
    assert_problem(await append(ana, "other", item=too_large), 422, "value_too_large")
    assert (await append(ana, "other", item="small")).status_code == 200
    assert await items(ana) == [1, "small"]


async def test_an_invalid_request_does_not_use_its_key_up(ana: Person) -> None:
    headers = {"Idempotency-Key": "once"}
    assert_problem(await ana.http.post(ana.memory, json={"key": ""}, headers=headers), 422, "invalid_input")
    answer = await ana.http.post(ana.memory, json={"key": "k", "value": 1}, headers=headers)
    assert answer.status_code == 200


async def test_a_key_made_once_is_shown_again_and_stored_sealed(ana: Person, database_url: str) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await ana.http.post("/api/auth/keys", json={"name": "mine"}, headers=headers)
    again = await ana.http.post("/api/auth/keys", json={"name": "mine"}, headers=headers)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    named = [key for key in (await ana.http.get("/api/auth/keys")).json()["data"] if key["name"] == "mine"]
    assert len(named) == 1
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        kept = await connection.execute("select sealed_response from private.idempotency_keys")
        [(sealed,)] = await kept.fetchall()
    assert first.json()["key"].encode() not in sealed


async def test_after_a_day_a_key_is_new_again(ana: Person, database_url: str) -> None:
    await append(ana, "once")
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await connection.execute(
            "update private.idempotency_keys set created_at = now() - interval '25 hours'"
        )
    assert (await append(ana, "once", item=2)).status_code == 200
    assert await items(ana) == [1, 2]


async def test_a_key_is_short_printable_text(ana: Person) -> None:
    for key in ("", "k" * 256, "a\tb"):
        assert_problem(await append(ana, key), 422, "invalid_input")
    assert (await append(ana, "k" * 255)).status_code == 200
