"""Filters: what they let pass, as Postgres judges it, and what is no filter."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from recollect.access import store
from recollect.bootstrap import Services
from recollect.db.database import Database
from recollect.db.tenancy import SERVICE
from recollect.engine.filters import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_LISTED,
    MAX_SOUGHT,
    InvalidFilter,
    compile_filter,
)
from tests.engine.judging import MEMORY, Judge, postgres_as_judge

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def judge(template: Database) -> Iterator[Judge]:
    with postgres_as_judge(template) as found:
        yield found


@pytest.mark.parametrize(
    "wanted",
    [
        None,
        {},
        {"user_id": "ana"},
        {"user_id": {"eq": "ana"}},
        {"user_id": "*"},
        {"user_id": {"in": ["ben", "ana"]}},
        {"user_id": {"ne": "ben"}},
        {"user_id": {"nin": ["ben"]}},
        {"agent_id": {"ne": "bot"}},
        {"agent_id": None},
        {"agent_id": {"in": ["bot", None]}},
        {"user_id": "ana", "app_id": "shop"},
        {"AND": [{"user_id": "ana"}, {"AND": [{"app_id": "shop"}]}]},
        {"OR": [{"user_id": "ben"}, {"app_id": "shop"}]},
        {"NOT": {"user_id": "ben"}},
        {"NOT": [{"user_id": "ben"}, {"user_id": "eve"}]},
        {"NOT": {"OR": [{"user_id": "ben"}, {"metadata": {"missing": 1}}]}},
        {"AND": [{"user_id": "ana"}], "OR": [{"kind": "fact"}, {"kind": "turn"}]},
        {"memory_ids": ["0197a3a0-0000-7000-8000-00000000000A", "no id"]},
        {"id": "0197A3A000007000800000000000000A"},
        {"created_at": {"gte": "2026-03-01", "lt": "2026-03-02"}},
        {"created_at": {"gt": "2026-03-01T13:59:59+02:00"}},
        {"created_at": "2026-03-01T13:00:00+01:00"},
        {"created_at": {"lte": 1_772_366_400}},
        {"created_at": {"gt": 1_772_366_399.5}},
        {"timestamp": {"gte": "2026-03-01"}},
        {"occurred_at": {"ne": "2026-03-01"}},
        {"expiration_date": None},
        {"categories": {"in": ["Food", "health"]}},
        {"categories": {"contains": "finance"}},
        {"categories": {"contains": "food"}},
        {"categories": {"icontains": "FINANCE"}},
        {"categories": "Food"},
        {"categories": ["Food", "personal_finance"]},
        {"categories": {"ne": "health"}},
        {"categories": "*"},
        {"keywords": {"contains": "Invoices"}},
        {"keywords": {"icontains": "INVOICES"}},
        {"keywords": "invoices"},
        {"memory": {"contains": "100% \\d+"}},
        {"text": {"contains": "by card."}},
        {"metadata": {"source": "email"}},
        {"metadata": {"source": {"contains": "mai"}, "priority": {"gte": 7, "lt": 7.5}}},
        {"metadata.source": "email"},
        {"metadata": "*"},
        {"source": "email", "priority": {"gt": 6.9}},
        {"priority": {"in": ["7", 7]}},
        {"priority": 7.0},
        {"score": {"eq": 0.8}},
        {"done": False},
        {"done": {"ne": True}},
        {"nothing": None},
        {"missing": None},
        {"missing": {"ne": "x"}},
        {"none": "*"},
        {"tags": "red"},
        {"tags": {"contains": "red"}},
        {"tags": {"contains": 3}},
        {"tags": {"contains": ["red", 3]}},
        {"tags": ["red", "Blue"]},
        {"tags": {"icontains": "BLUE"}},
        {"tags": {"in": ["green", "red"]}},
        {"tags": {"gte": 3}},
        {"NOT": {"missing": {"gt": 3}}},
    ],
)
def test_a_memory_passes(judge: Judge, wanted: Any) -> None:
    assert judge(MEMORY, wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"user_id": "Ana"},
        {"user_id": {"ne": "ana"}},
        {"agent_id": "*"},
        {"run_id": "run"},
        {"AND": [{"user_id": "ana"}, {"user_id": "ben"}]},
        {"user_id": {"in": []}},
        {"memory_ids": []},
        {"memory_ids": ["ana"]},
        {"NOT": [{"user_id": "ana"}, {"user_id": "ben"}]},
        {"NOT": {"user_id": {"nin": ["ben"]}}},
        {"created_at": {"gt": "2026-03-01T12:00:00Z"}},
        {"created_at": "2026-03-01"},
        {"occurred_at": {"gte": "2026-01-01"}},
        {"expiration_date": "*"},
        {"expiration_date": {"lt": "2030-01-01"}},
        {"categories": {"in": ["food"]}},
        {"categories": ["Food", "health"]},
        {"keywords": {"contains": "invoices"}},
        {"keywords": {"contains": "Pays.*card"}},
        {"metadata": {"source": "email", "priority": 8}},
        {"metadata.missing": "*"},
        {"nothing": "*"},
        {"nothing": 0},
        {"done": 0},
        {"priority": "7"},
        {"priority": {"gt": "6"}},
        {"source": {"gt": 0}},
        {"tags": {"contains": "re"}},
        {"tags": {"icontains": "blu"}},
        {"tags": {"icontains": "b.ue"}},
        {"tags": {"ne": "red"}},
        {"tags": ["red", "green"]},
        {"tags": {"contains": "3"}},
        {"source": ["email"]},
        {"lists": "deep"},
        {"lists": {"contains": "deep"}},
        {"none": "deep"},
        {"metadata": {"user_id": "ana"}},
    ],
)
def test_a_memory_does_not_pass(judge: Judge, wanted: Any) -> None:
    assert not judge(MEMORY, wanted)


def test_without_categories_none_is_there(judge: Judge) -> None:
    assert not judge({**MEMORY, "categories": []}, {"categories": "*"})
    assert judge({**MEMORY, "categories": []}, {"categories": None})


def test_what_was_said_at_a_time_is_not_asked_when_it_came(judge: Judge) -> None:
    said = {**MEMORY, "occurred_at": "2020-01-01T00:00:00.000000Z"}
    assert judge(said, {"timestamp": {"lt": "2021-01-01"}})
    assert not judge(said, {"timestamp": {"gte": "2026-03-01"}})


def test_equalities_at_the_top_are_left_to_columns() -> None:
    compiled = compile_filter(
        {
            "AND": [{"user_id": "ana"}, {"agent_id": {"eq": "bot"}}, {"AND": [{"run_id": "1"}]}],
            "app_id": "shop",
        }
    )
    assert (compiled.user, compiled.agent, compiled.app, compiled.run) == ("ana", "bot", "shop", "1")
    assert (compiled.path, compiled.values) == (None, {})
    for below in (
        {"OR": [{"user_id": "ana"}]},
        {"NOT": {"user_id": "ana"}},
        {"metadata": {"user_id": "ana"}},
    ):
        assert compile_filter(below).user is None


def test_operands_are_variables_and_never_part_of_the_path() -> None:
    wanted = {"OR": [{"user_id": "zebra"}, {"tags": {"in": ["zebra", 73]}}, {"priority": {"gt": 73}}]}
    compiled = compile_filter(wanted)
    assert compiled.path is not None
    assert "zebra" not in compiled.path
    assert "73" not in compiled.path
    assert list(compiled.values.values()) == ["zebra", ["zebra"], [73], 73]


def deep(levels: int) -> dict[str, Any]:
    wanted: dict[str, Any] = {"user_id": "ana"}
    for _ in range(levels):
        wanted = {"AND": [wanted]}
    return wanted


def nested(levels: int) -> list[Any]:
    listed: list[Any] = ["ana"]
    for _ in range(levels):
        listed = [listed]
    return listed


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        ([], "The filter"),
        ("user_id", "The filter"),
        ({"AND": []}, "AND"),
        ({"OR": []}, "OR"),
        ({"NOT": []}, "NOT"),
        ({"AND": {"user_id": "ana"}}, "AND"),
        ({"OR": [{"user_id": "ana"}, {}]}, r"OR\[1\]"),
        ({"NOT": {}}, r"NOT\[0\]"),
        ({"OR": ["ana"]}, r"OR\[0\]"),
        ({"user_id": {}}, "user_id"),
        ({"user_id": {"like": "a"}}, r"user_id.like .* contains, eq, icontains, in, ne, nin"),
        ({"user_id": {">=": "a"}}, "user_id.>="),
        ({"user_id": {"gt": "a"}}, "user_id.gt"),
        ({"user_id": 7}, "user_id needs text"),
        ({"user_id": True}, "user_id needs text"),
        ({"user_id": ["ana"]}, "user_id needs text"),
        ({"user_id": {"in": "ana"}}, "user_id.in needs a list"),
        ({"user_id": {"in": [["ana"]]}}, "user_id.in"),
        ({"user_id": {"in": ["x"] * (MAX_LISTED + 1)}}, "user_id.in takes at most"),
        ({"created_at": {"gte": "yesterday"}}, "created_at.gte needs a moment"),
        ({"created_at": {"gte": "0001-01-01T00:00:00+14:00"}}, "created_at.gte"),
        ({"created_at": {"gte": 1e300}}, "created_at.gte"),
        ({"created_at": {"gte": None}}, "created_at.gte"),
        ({"created_at": {"contains": "2026"}}, "created_at.contains"),
        ({"keywords": {"eq": "x"}}, "keywords.eq"),
        ({"keywords": {"contains": ""}}, "keywords.contains needs text of 1"),
        ({"keywords": {"contains": "x" * (MAX_SOUGHT + 1)}}, "keywords.contains"),
        ({"keywords": {"contains": 7}}, "keywords.contains"),
        ({"metadata": {}}, "metadata needs keys"),
        ({"metadata": "email"}, "metadata needs keys"),
        ({"metadata": {"contains": "email"}}, "metadata.contains needs a key"),
        ({"metadata": {"address": {"city": "Rome"}}}, 'metadata.address.city "city" is no operator'),
        ({"tags": []}, "tags"),
        ({"tags": [["red"]]}, "tags"),
        ({"tags": {"contains": nested(2_000)}}, "tags.contains"),
        ({"tags": {"in": nested(2_000)}}, "tags.in"),
        ({"tags": {"icontains": 3}}, "tags.icontains"),
        ({"done": {"gt": True}}, "done.gt"),
        ({"or": [{"user_id": "ana"}]}, "or"),
        ({"score": math.nan}, "score cannot be used"),
        ({"score": math.inf}, "score cannot be used"),
        ({"score": 2**70}, "score cannot be used"),
        ({"score": b"x"}, "score"),
        ({"score": object()}, "score"),
        ({"user_id": "a\x00"}, "user_id cannot be used"),
        ({"user_id": "\ud800"}, "user_id cannot be used"),
        ({"a\x00": 1}, "The filter has a key"),
        ({"metadata": {"\ud800": 1}}, "metadata has a key"),
        ({"metadata": {7: 1}}, "metadata has a key"),
        ({7: 1}, "The filter has a key"),
        ({"user_id": {7: "ana"}}, "user_id has a key"),
        (deep(MAX_DEPTH + 1), f"more than {MAX_DEPTH} levels"),
        (deep(50), f"more than {MAX_DEPTH} levels"),
        (deep(100_000), f"more than {MAX_DEPTH} levels"),
        ({"OR": [{"a": 1}] * (MAX_CONDITIONS + 1)}, rf"OR\[{MAX_CONDITIONS}\].a is too much"),
        ({"tags": ["a"] * (MAX_CONDITIONS + 1)}, "tags is too much"),
    ],
)
def test_what_is_no_filter_is_an_error_that_names_the_place(wanted: Any, place: str) -> None:
    with pytest.raises(InvalidFilter, match=place) as caught:
        compile_filter(wanted)
    assert (caught.value.code, caught.value.status) == ("invalid_filter", 422)
    assert len(caught.value.detail) < 500


def test_the_largest_filter_is_one(judge: Judge) -> None:
    assert judge(MEMORY, deep(MAX_DEPTH))
    assert judge(MEMORY, {"OR": [{"source": "email"}] * MAX_CONDITIONS})
    assert judge(MEMORY, {"user_id": {"in": ["x"] * (MAX_LISTED - 1) + ["ana"]}})
    for sought in ("x", "é", "(", "\\", "\U0001f600"):
        assert judge({**MEMORY, "memory": sought * MAX_SOUGHT}, {"keywords": sought * MAX_SOUGHT})
        assert judge(
            {**MEMORY, "metadata": {"k": [sought * MAX_SOUGHT]}}, {"k": {"icontains": sought * MAX_SOUGHT}}
        )


async def test_a_stored_memory_is_found_by_each_of_its_fields(services: Services, database_url: str) -> None:
    async with services.tenancy.acting_as(SERVICE) as tx:
        owner = await store.add_user(tx, "ana@example.com", None)
    memory_id = uuid4()
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute(
            """
            insert into memories (id, owner_id, of_user, kind, role, text, metadata, categories, terms,
                                  digest, created_at, occurred_at, expires_at)
            values (%s, %s, 'ana', 'fact', 'user', 'Likes tea.', '{"n": 1}', '{food}', '{}', '', %s, %s, %s)
            """,
            (memory_id, owner, "2026-03-01 12:00+02", "0999-12-31 23:59:59.000001Z", "9999-12-31Z"),
        )
        for wanted in (
            {"user_id": "ana", "kind": "fact", "role": "user"},
            {"id": str(memory_id)},
            {"memory_ids": [str(memory_id).upper()]},
            {"memory": "Likes tea."},
            {"n": 1, "categories": "food"},
            {"created_at": "2026-03-01T10:00:00Z"},
            {"occurred_at": {"gt": "0999-12-31T23:59:59", "lt": "1000-01-01"}},
            {"expiration_date": "9999-12-31"},
            {"updated_at": {"gt": "2026-01-01"}},
        ):
            compiled = compile_filter(wanted)
            cursor = await connection.execute(
                "select id from private.memories_in(%s, %s, null, null, null, false, false, %s, %s)",
                (owner, compiled.user, compiled.path, Jsonb(compiled.values)),
            )
            assert await cursor.fetchall() == [(memory_id,)], wanted
