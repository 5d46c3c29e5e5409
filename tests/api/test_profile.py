"""Profiles over HTTP: the document, its versions, and conditions on them."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from recollect.settings import Settings
from tests.api.raw import assert_problem
from tests.conftest import Person, make_settings

pytestmark = pytest.mark.anyio

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
CRITIC = {"name": "Inner Critic", "recency_score": 0.9, "influence_score": 1.0}


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    # Large enough that it is the patch's own bounds which refuse it.
    return make_settings(home, database_url, max_body_bytes=10_000_000)


def of(person: Person, path: str = "") -> str:
    return f"/api/users/{person.id}/profile{path}"


def set_(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


async def send(
    person: Person, content: Any, *, kind: str = JSON_PATCH, headers: Any = (), **query: Any
) -> httpx.Response:
    return await person.http.patch(
        of(person),
        content=content if isinstance(content, bytes) else json.dumps(content).encode(),
        headers=[("Content-Type", kind), *headers],
        params=query,
    )


async def patch(person: Person, *operations: dict[str, Any], **more: Any) -> httpx.Response:
    return await send(person, list(operations), **more)


async def say(person: Person, summary: str, **query: Any) -> Any:
    answer = await patch(person, set_("/summary", summary), **query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def read(person: Person, place: str = "", **query: Any) -> Any:
    answer = await person.http.get(of(person, place), params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


# Reading


async def test_a_profile_begins_empty_at_version_0(ana: Person) -> None:
    answer = await ana.http.get(of(ana))
    assert answer.json() == {
        "version": 0,
        "last_updated_by": "system",
        "summary": "",
        "parts": {},
        "triggers_and_goals": [],
        "safety_notes": "",
    }
    assert answer.headers["etag"] == '"0"'
    assert "last-modified" not in answer.headers
    assert await read(ana, "/history") == {"data": []}
    assert_problem(await ana.http.get(of(ana, "/blame")), 404, "unknown_version")


async def test_the_answer_is_the_document_itself_with_its_version_as_the_tag(ana: Person) -> None:
    odd = {"one": 1, "float": 1.0, "big": 2**53 + 1, "none": None, "a/b~c": "ü \u2028 𝄞"}
    made = await patch(ana, set_("/parts/critic", CRITIC), set_("/odd", odd), reason="said so")
    answer = await ana.http.get(of(ana))

    assert made.status_code == 200
    assert made.content == answer.content
    assert made.headers["etag"] == answer.headers["etag"] == '"1"'
    document = answer.json()
    assert (document["version"], document["last_updated_by"]) == (1, "user")
    assert json.dumps(document["odd"]) == json.dumps(dict(sorted(odd.items())))
    assert document["parts"]["critic"] == CRITIC
    [version] = (await read(ana, "/history"))["data"]
    stored = datetime.fromisoformat(version["created_at"]).replace(microsecond=0)
    assert parsedate_to_datetime(answer.headers["last-modified"]) == stored
    assert (version["source_description"], version["actor"]) == ("said so", str(ana.id))


async def test_it_is_read_as_it_was_at_a_version_or_at_a_moment(ana: Person) -> None:
    for summary in ("one", "two", "three"):
        await say(ana, summary)
    _, second, _ = (await read(ana, "/history"))["data"]

    assert (await read(ana, version=1))["summary"] == "one"
    assert (await read(ana, version=0))["version"] == 0
    assert (await read(ana, at=second["created_at"]))["summary"] == "two"
    assert (await read(ana, at="2001-01-01T00:00:00Z"))["version"] == 0
    assert_problem(await ana.http.get(of(ana), params={"version": 4}), 404, "unknown_version")
    for query in ("version=1&at=2030-01-01T00:00:00Z", "version=-1", "version=1_0", "at=now", "since=x"):
        assert_problem(await ana.http.get(f"{of(ana)}?{query}"), 422, "invalid_input")
    assert_problem(await ana.http.get(of(ana), params={"since": 1, "version": 2}), 422)


async def test_what_has_changed_since_a_version_is_told_without_the_rest(ana: Person) -> None:
    await say(ana, "one")
    await patch(ana, set_("/parts/critic", CRITIC))
    answer = await ana.http.get(of(ana), params={"since": 1})

    news = answer.json()
    assert (news["from_version"], news["to_version"]) == (1, 2)
    assert {"op": "add", "path": "/parts/critic", "value": CRITIC} in news["patch"]
    [line] = news["text"]
    assert line.startswith("+ parts.critic: ")
    assert answer.headers["etag"] == '"2"'
    again = await ana.http.get(of(ana), params={"since": 2}, headers={"If-None-Match": '"2"'})
    assert again.status_code == 304
    assert (await read(ana, since=2))["text"] == []
    assert_problem(await ana.http.get(of(ana), params={"since": 3}), 404, "unknown_version")


@pytest.mark.parametrize("known", ['"1"', 'W/"1"', "*", '"7", "1"', '"a,b" ,, W/"1"'])
async def test_who_has_this_version_already_is_told_so(ana: Person, known: str) -> None:
    await say(ana, "one")
    same = await ana.http.get(of(ana), headers={"If-None-Match": known})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", '"1"')
    assert (await ana.http.get(of(ana), headers={"If-None-Match": '"2"'})).status_code == 200


# Conditions on writing


@pytest.mark.parametrize("wanted", ['"2"', "*", '"7" , "2"', 'W/"2","2"'])
async def test_what_is_meant_for_the_present_version_is_done(ana: Person, wanted: str) -> None:
    await say(ana, "one")
    await say(ana, "two")
    made = await patch(ana, set_("/summary", "three"), headers=[("If-Match", wanted)])
    assert (made.status_code, made.headers["etag"]) == (200, '"3"')


@pytest.mark.parametrize(
    "header", ['If-Match: "1"', 'If-Match: W/"2"', 'If-None-Match: W/"2"', "If-None-Match: *"]
)
@pytest.mark.parametrize("method", ["PATCH", "PUT"])
async def test_what_is_meant_for_another_version_changes_nothing(
    ana: Person, method: str, header: str
) -> None:
    await say(ana, "one")
    before = await say(ana, "two")
    name, _, value = header.partition(": ")
    kind = MERGE_PATCH if method == "PATCH" else "application/json"

    refused = await ana.http.request(
        method, of(ana), content=b'{"summary": "three"}', headers={"Content-Type": kind, name: value}
    )

    problem = assert_problem(refused, 412, "stale_version")
    assert problem["current_version"] == 2
    assert await read(ana) == before


async def test_of_many_who_mean_the_same_version_one_is_first(ana: Person) -> None:
    await say(ana, "one")
    writers = (patch(ana, set_("/summary", f"{n}"), headers=[("If-Match", '"1"')]) for n in range(10))
    statuses = sorted(answer.status_code for answer in await asyncio.gather(*writers))
    assert statuses == [200, *[412] * 9]
    assert (await read(ana))["version"] == 2


async def test_tags_may_come_in_several_lines_and_must_be_tags(ana: Person) -> None:
    await say(ana, "one")
    lines = [("If-Match", '"7"'), ("If-Match", '"1"')]
    assert (await patch(ana, set_("/summary", "two"), headers=lines)).status_code == 200
    for wrong in ("2", '"2', '*, "2"', ",", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"):
        refused = await patch(ana, set_("/summary", "x"), headers=[("If-Match", wrong.encode("latin-1"))])
        assert 'such as "7"' in assert_problem(refused, 422, "invalid_input")["detail"]
    refused = await patch(ana, set_("/summary", "x"), headers=[("If-Match", '"2"'), ("If-Match", "*")])
    assert_problem(refused, 422, "invalid_input")


async def test_a_change_of_an_earlier_version_is_merged_where_it_touches_nothing_else(ana: Person) -> None:
    await say(ana, "one")
    await say(ana, "two")
    await patch(ana, set_("/parts/critic", CRITIC), base=1)

    merged = await send(ana, {"safety_notes": "slowly"}, kind=MERGE_PATCH, base=2)

    document = merged.json()
    assert (document["version"], document["summary"], document["safety_notes"]) == (4, "two", "slowly")
    assert document["parts"] == {"critic": CRITIC}
    refused = await patch(ana, set_("/summary", "mine"), base=1)
    problem = assert_problem(refused, 409, "stale_version")
    assert (problem["current_version"], problem["paths"]) == (4, ["/summary"])
    assert await read(ana) == document
    assert_problem(await patch(ana, set_("/summary", "mine"), base=9), 404, "unknown_version")


# Kinds of change


async def test_a_merge_patch_sets_and_removes(ana: Person) -> None:
    await patch(ana, set_("/parts/critic", CRITIC), set_("/extra", {"a": 1, "b": 2}))
    made = await send(
        ana, {"extra": {"a": None, "c": 3}, "parts": {"critic": None}}, kind=f"{MERGE_PATCH}; charset=utf-8"
    )
    assert (made.json()["extra"], made.json()["parts"]) == ({"b": 2, "c": 3}, {})


async def test_a_whole_document_is_stored_as_what_it_changes(ana: Person) -> None:
    document = await say(ana, "one")
    answer = await ana.http.put(of(ana), json={**document, "version": 17, "summary": "two"})
    assert (answer.json()["version"], answer.headers["etag"]) == (2, '"2"')
    same = await ana.http.put(of(ana), json=answer.json())
    assert (same.status_code, same.headers["etag"]) == (200, '"2"')
    latest = (await read(ana, "/history"))["data"][0]
    assert {"op": "replace", "path": "/summary", "value": "two"} in latest["patch"]
    assert len(json.dumps(latest["patch"])) < 200
    wrong = await ana.http.put(of(ana), json={"summary": 1})
    assert "/summary" in assert_problem(wrong, 422, "does_not_fit")["detail"]


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/x-www-form-urlencoded", ""])
async def test_a_change_of_another_type_is_refused_with_those_that_are_taken(ana: Person, kind: str) -> None:
    refused = await send(ana, {"summary": "x"}, kind=kind)
    assert_problem(refused, 415, "unsupported_body")
    assert refused.headers["accept-patch"] == f"{JSON_PATCH}, {MERGE_PATCH}"


async def test_no_other_address_takes_patches(ana: Person) -> None:
    others = (("PUT", ""), ("POST", "/restore"), ("PATCH", "/history"))
    for method, path in (*((method, of(ana, path)) for method, path in others), ("PATCH", "/api/profile")):
        refused = await ana.http.request(
            method, path, content=b'{"version": 0}', headers={"Content-Type": MERGE_PATCH}
        )
        assert_problem(refused, 415, "unsupported_body")


DOUBLING = [{"op": "copy", "from": "/bomb", "path": "/bomb/-"} for _ in range(60)]
HOSTILE: dict[str, tuple[Any, set[int]]] = {
    "100,000 operations": ([set_("/summary", "x")] * 100_000, {422}),
    "a copy bomb": ([set_("/bomb", ["x" * 1_000]), *DOUBLING], {409, 422}),
    "copies of all into all": (
        [set_("/a", {}), *({"op": "copy", "from": "", "path": f"/a/{n}"} for n in range(60))],
        {409, 422},
    ),
    "a wrong test": ([set_("/summary", "x"), {"op": "test", "path": "/summary", "value": "y"}], {409}),
    "a path outside": ([set_("/summary", "x"), set_("/nowhere/at/all", 1)], {409}),
    "an index outside": ([{"op": "remove", "path": "/triggers_and_goals/7"}], {409}),
    "a move into itself": ([{"op": "move", "from": "/parts", "path": "/parts/x"}], {409, 422}),
    "an unknown operation": ([{"op": "spam", "path": "/summary"}], {422}),
    "no list": ({"op": "add", "path": "/summary", "value": "x"}, {422}),
    "no pointer": ([set_("summary", "x")], {422}),
    "no document": ([{"op": "replace", "path": "", "value": []}], {422}),
    "what does not fit": ([set_("/parts/critic", {"name": "x", "recency_score": 7})], {422}),
    "a huge value": ([set_("/big", "x" * 1_000_001)], {422}),
    "half a surrogate pair": (rb'[{"op": "add", "path": "/summary", "value": "\ud800"}]', {400, 422}),
    "the same key twice": (b'[{"op": "add", "path": "/a", "path": "/b", "value": 1}]', {400}),
    "too deep": (b"[" * 2_000 + b"]" * 2_000, {400}),
    "no JSON": (b"[", {400}),
    "nothing": (b"", {422}),
}


@pytest.mark.parametrize("which", HOSTILE)
async def test_a_hostile_patch_is_refused_and_changes_nothing(ana: Person, which: str) -> None:
    await say(ana, "one")
    before = await ana.http.get(of(ana))
    content, statuses = HOSTILE[which]

    refused = await send(ana, content)

    assert refused.status_code in statuses, refused.text
    assert refused.headers["content-type"] == "application/problem+json"
    after = await ana.http.get(of(ana))
    assert (after.content, after.headers["etag"]) == (before.content, before.headers["etag"])


async def test_a_repeated_change_happens_once(ana: Person) -> None:
    add = [("Idempotency-Key", "add"), ("If-Match", '"0"')]
    first = await patch(ana, set_("/list", [1]), set_("/list/-", 2), headers=add)
    again = await patch(ana, set_("/list", [1]), set_("/list/-", 2), headers=add)
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    for path in ("/undo", "/undo", "/restore", "/restore"):
        body = {"version": 1}
        await ana.http.post(of(ana, path), json=body, headers={"Idempotency-Key": f"once {path}"})
    assert (await read(ana))["version"] == 3


# The history


async def test_the_history_is_paged_newest_first(ana: Person) -> None:
    for number in range(5):
        await say(ana, f"{number}")
    first = await read(ana, "/history", limit=3)
    rest = await read(ana, "/history", limit=3, cursor=first["nextCursor"])
    assert [each["version"] for each in first["data"] + rest["data"]] == [5, 4, 3, 2, 1]
    assert "nextCursor" not in rest


async def test_any_two_versions_are_compared_in_either_direction(ana: Person) -> None:
    await say(ana, "one")
    await say(ana, "two")
    await say(ana, "three")
    there = await read(ana, "/diff", **{"from": 1, "to": 2})
    back = await read(ana, "/diff", **{"from": 2, "to": 1})
    latest = await read(ana, "/diff", **{"from": 1})
    assert there["text"] == ['summary: "one" -> "two"']
    assert back["text"] == ['summary: "two" -> "one"']
    assert (latest["from_version"], latest["to_version"]) == (1, 3)
    assert_problem(await ana.http.get(of(ana, "/diff")), 422, "invalid_input")


async def test_restoring_and_undoing_are_new_versions(ana: Person) -> None:
    await say(ana, "one")
    await say(ana, "two")
    moment = (await read(ana, "/history"))["data"][0]["created_at"]
    await patch(ana, set_("/parts/critic", CRITIC))

    restored = await ana.http.post(of(ana, "/restore"), json={"version": 1, "reason": "better then"})
    by_moment = await ana.http.post(of(ana, "/restore"), json={"at": moment})
    undone = await ana.http.post(of(ana, "/undo"))
    await say(ana, "three")
    one_back = await ana.http.post(of(ana, "/undo"), json={"version": 2})

    assert (restored.json()["summary"], restored.headers["etag"]) == ("one", '"4"')
    assert (by_moment.json()["summary"], by_moment.headers["etag"]) == ("two", '"5"')
    assert (undone.json()["summary"], undone.headers["etag"]) == ("one", '"6"')
    assert_problem(one_back, 409, "stale_version")
    origins = [(each["origin"], each["source_description"]) for each in (await read(ana, "/history"))["data"]]
    assert origins[1:4] == [
        ("undo", "The latest version undone."),
        ("restore", f"Back to {datetime.fromisoformat(moment).isoformat()}."),
        ("restore", "better then"),
    ]
    for wrong in ({}, {"version": 1, "at": moment}, {"version": "1"}, {"version": -1}):
        assert_problem(await ana.http.post(of(ana, "/restore"), json=wrong), 422)
    assert_problem(await ana.http.post(of(ana, "/restore"), json={"version": 99}), 404, "unknown_version")


async def test_undoing_one_version_leaves_what_came_after_it(ana: Person) -> None:
    await say(ana, "one")
    await say(ana, "two")
    await patch(ana, set_("/parts/critic", CRITIC))
    undone = (await ana.http.post(of(ana, "/undo"), json={"version": 2, "reason": "a slip"})).json()
    assert (undone["summary"], undone["parts"]) == ("one", {"critic": CRITIC})


async def test_blame_names_the_version_that_last_changed_a_path(ana: Person) -> None:
    await patch(ana, set_("/parts/critic", CRITIC))
    await say(ana, "two", reason="said so")
    await patch(ana, set_("/parts/critic/status", "resting"))
    found = await read(ana, "/blame", path="/summary")
    assert (found["version"], found["source_description"], found["actor"]) == (2, "said so", str(ana.id))
    assert (await read(ana, "/blame", path="/parts/critic/name"))["version"] == 1
    assert (await read(ana, "/blame"))["version"] == 3
    assert_problem(await ana.http.get(of(ana, "/blame"), params={"path": "/no"}), 404, "unknown_path")
    assert_problem(await ana.http.get(of(ana, "/blame"), params={"path": "no"}), 422)


async def test_a_history_is_verified(ana: Person) -> None:
    await say(ana, "one")
    await say(ana, "two")
    assert await read(ana, "/verify") == {"versions": 2, "checkpoints": 1, "damage": []}
