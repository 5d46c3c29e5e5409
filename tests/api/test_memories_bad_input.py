"""What cannot be remembered, looked for or changed is refused in a sentence, and nothing is half-written."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from tests.api.raw import assert_problem
from tests.api.remembering import remember
from tests.conftest import Person

pytestmark = pytest.mark.anyio

MEMORIES = "/api/memories"


@pytest.fixture
async def nothing_changes(ana: Person) -> AsyncIterator[str]:
    """Around a test: one memory is there, and stays as it is and the only one."""
    [memory] = await remember(ana.http, "as it was")
    before = (await ana.http.get(f"{MEMORIES}/{memory}")).json()
    yield memory
    assert (await ana.http.get(MEMORIES, params={"superseded": "true"})).json() == {"data": [before]}
    entities = (await ana.http.get(f"{MEMORIES}/entities")).json()["data"]
    assert [(each["type"], each["name"]) for each in entities] == [("user", "mia")]


def deep(levels: int) -> dict[str, Any]:
    """A filter so many levels deep."""
    made: dict[str, Any] = {"a": 1}
    for _ in range(levels):
        made = {"NOT": made}
    return made


@pytest.mark.parametrize("infer", [True, False])
async def test_what_cannot_be_remembered_is_refused_whole(
    ana: Person, nothing_changes: str, subtests: pytest.Subtests, infer: bool
) -> None:
    good = {"role": "user", "content": "This alone would be stored."}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"text": "x"}, "no_entity"),
        ({"text": "x", "user": None}, "no_entity"),
        ({"text": "x", "user": ""}, "invalid_input"),
        ({"text": "x", "user": "u" * 257}, "invalid_input"),
        ({"user": "new"}, "invalid_input"),
        ({"user": "new", "text": "x", "messages": [good]}, "invalid_input"),
        ({"user": "new", "text": " \n\t "}, "invalid_input"),
        ({"user": "new", "messages": []}, "invalid_input"),
        ({"user": "new", "messages": [{"role": "user", "content": " "}]}, "invalid_input"),
        ({"user": "new", "messages": [{"role": "user", "content": None}]}, "invalid_input"),
        ({"user": "new", "messages": [good, {"role": "user", "content": 7}]}, "invalid_input"),
        ({"user": "new", "messages": [good, "text"]}, "invalid_input"),
        ({"user": "new", "messages": [good, {"role": "", "content": "x"}]}, "invalid_input"),
        ({"user": "new", "text": "x" * 50_001}, "text_too_long"),
        ({"user": "new", "text": "x" * 1_000_000}, "text_too_long"),
        ({"user": "new", "messages": [good, {"role": "user", "content": "x" * 50_001}]}, "text_too_long"),
        ({"user": "new", "messages": [good] * 1_001}, "invalid_input"),
        ({"user": "new", "text": "x", "metadata": {"a": "x" * 70_000}}, "invalid_input"),
        ({"user": "new", "text": "x", "metadata": [1]}, "invalid_input"),
        ({"user": "new", "text": "x", "importance": 1.1}, "invalid_input"),
        ({"user": "new", "text": "x", "importance": "0.5"}, "invalid_input"),
        ({"user": "new", "text": "x", "categories": [""]}, "invalid_input"),
        ({"user": "new", "text": "x", "expires_at": "tomorrow"}, "invalid_input"),
        ({"user": "new", "text": "x", "workspace": "mine"}, "invalid_input"),
        ({"user": "new", "text": "x", "user_id": "new"}, "invalid_input"),
    ]
    for body, code in cases:
        with subtests.test(body=str(body)[:80]):
            assert_problem(await ana.http.post(MEMORIES, json={"infer": infer, **body}), 422, code)
    infer_what = {"user": "new", "text": "x", "infer": "no"}
    assert_problem(await ana.http.post(MEMORIES, json=infer_what), 422, "invalid_input")
    nowhere = {"user": "new", "text": "x", "infer": infer, "workspace": str(uuid4())}
    assert_problem(await ana.http.post(MEMORIES, json=nowhere), 404, "not_found")


async def test_what_cannot_be_looked_for_is_refused(
    ana: Person, nothing_changes: str, subtests: pytest.Subtests
) -> None:
    for body, code in [
        ({}, "invalid_input"),
        ({"query": ""}, "invalid_input"),
        ({"query": "  "}, "invalid_input"),
        ({"query": "x" * 10_001}, "invalid_input"),
        ({"query": "x", "filters": {"stars": {"near": 3}}}, "invalid_filter"),
        ({"query": "x", "filters": {"AND": "x"}}, "invalid_filter"),
        ({"query": "x", "filters": deep(50)}, "invalid_filter"),
        ({"query": "x", "filters": {"OR": [{"a": {"contains": "'; drop table memories; --"}}, {}]}}, None),
        ({"query": "x", "threshold": 2}, "invalid_input"),
        ({"query": "x", "recency": -1}, "invalid_input"),
        ({"query": "x", "half_life_days": 0}, "invalid_input"),
        ({"query": "x", "user": "mia", "filters": {"user_id": "tom"}}, "invalid_input"),
        ({"query": "x", "unknown": 1}, "invalid_input"),
    ]:
        for path in ("search", "context"):
            with subtests.test(path=path, body=str(body)[:80]):
                assert_problem(await ana.http.post(f"{MEMORIES}/{path}", json=body), 422, code)
    for path, name in (("search", "limit"), ("context", "budget_tokens")):
        for number in (0, 10_000_000, True, "5", 1.5):
            with subtests.test(name=name, number=number):
                body = {"query": "x", name: number}
                assert_problem(await ana.http.post(f"{MEMORIES}/{path}", json=body), 422, "invalid_input")


async def test_a_filter_deeper_than_json_may_be_is_refused_at_the_door(ana: Person) -> None:
    body = {"query": "x", "filters": deep(70)}
    assert_problem(await ana.http.post(f"{MEMORIES}/search", json=body), 400, "invalid_json")


async def test_a_list_takes_only_filters_that_it_understands(
    ana: Person, nothing_changes: str, subtests: pytest.Subtests
) -> None:
    for query, code in [
        ({"filters": "{"}, "invalid_filter"),
        ({"filters": "[]"}, "invalid_filter"),
        ({"filters": '"x"'}, "invalid_filter"),
        ({"filters": '{"a": {"near": 1}}'}, "invalid_filter"),
        ({"filters": json.dumps(deep(50))}, "invalid_filter"),
        ({"filters": json.dumps(deep(500))}, "invalid_filter"),
        ({"filters": "x" * 20_001}, "invalid_input"),
        ({"expired": "yes"}, "invalid_input"),
        ({"user": ""}, "invalid_input"),
        ({"workspace": "mine"}, "invalid_input"),
        ({"cursor": "made-up"}, "invalid_cursor"),
        ({"unknown": "1"}, "invalid_input"),
    ]:
        with subtests.test(query=str(query)[:80]):
            assert_problem(await ana.http.get(MEMORIES, params=query), 422, code)


async def test_a_change_that_is_none_or_cannot_be_is_refused(
    ana: Person, nothing_changes: str, subtests: pytest.Subtests
) -> None:
    place = f"{MEMORIES}/{nothing_changes}"
    for body, code in [
        ({}, "invalid_input"),
        ({"reason": "none"}, "invalid_input"),
        ({"text": None, "metadata": None}, "invalid_input"),
        ({"text": "  "}, "invalid_input"),
        ({"text": "x" * 50_001}, "text_too_long"),
        ({"text": "x", "metadata": {"a": "x" * 70_000}}, "invalid_input"),
        ({"metadata": []}, "invalid_input"),
        ({"text": "x", "reason": "r" * 2_001}, "invalid_input"),
        ({"text": "x", "user": "tom"}, "invalid_input"),
    ]:
        with subtests.test(body=str(body)[:80]):
            assert_problem(await ana.http.patch(place, json=body), 422, code)
    for feedback in ("GOOD", "", 1):
        answer = await ana.http.post(f"{place}/feedback", json={"feedback": feedback})
        assert_problem(answer, 422, "invalid_input")
    assert_problem(await ana.http.post(f"{place}/feedback", json={}), 422, "invalid_input")
    assert_problem(await ana.http.patch(f"{MEMORIES}/{uuid4()}", json={"text": "x"}), 404, "unknown_memory")
    assert_problem(await ana.http.get(f"{MEMORIES}/nonsense"), 422, "invalid_input")
