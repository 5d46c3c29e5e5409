"""Memories over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.raw import assert_problem
from tests.api.remembering import link, remember, supersede
from tests.conftest import MakePerson, Person

pytestmark = pytest.mark.anyio

MEMORIES = "/api/memories"


async def found(person: Person, **wanted: Any) -> list[dict[str, Any]]:
    answer = await person.http.post(f"{MEMORIES}/search", json=wanted)
    assert answer.status_code == 200, answer.text
    listed: list[dict[str, Any]] = answer.json()["data"]
    return listed


async def texts(person: Person, **query: Any) -> list[str]:
    answer = await person.http.get(MEMORIES, params=query)
    assert answer.status_code == 200, answer.text
    return [each["text"] for each in answer.json()["data"]]


async def shared(owner: Person, **roles: Person) -> str:
    """A workspace with these people in these roles."""
    made = await owner.http.post("/api/workspaces", json={"name": "Shared"})
    workspace: str = made.json()["id"]
    for role, person in roles.items():
        body = {"email": person.email, "role": role}
        answer = await owner.http.post(f"/api/workspaces/{workspace}/members", json=body)
        assert answer.status_code == 201
    return workspace


# Adding and finding


async def test_what_is_said_is_found_again_by_words_and_by_meaning(ana: Person) -> None:
    said = await ana.http.post(
        MEMORIES,
        json={
            "messages": [
                {"role": "user", "name": "Mia", "content": "I keep bees on the roof."},
                {"role": "assistant", "content": [{"type": "text", "text": "How many hives?"}]},
                {"role": "user", "name": "Mia", "content": "Seven, and the honey is sold in June."},
            ],
            "user": "mia",
            "run": "chat-1",
            "infer": False,
            "metadata": {"source": "chat"},
            "categories": ["hobby"],
            "importance": 0.7,
            "occurred_at": "2026-03-01T12:00:00Z",
        },
    )

    assert [each["event"] for each in said.json()["results"]] == ["ADD"] * 3
    [best, *_] = await found(ana, query="When is the honey sold?", user="mia", explain=True)
    assert best["text"] == "Seven, and the honey is sold in June."
    assert (best["speaker"], best["role"], best["run"]) == ("Mia", "user", "chat-1")
    assert (best["metadata"], best["categories"]) == ({"source": "chat"}, ["hobby"])
    assert (best["occurred_at"], best["kind"]) == ("2026-03-01T12:00:00Z", "turn")
    assert 0 < best["score"] <= 1
    assert best["breakdown"]["turn"] > 0
    assert best["breakdown"]["meaning"] > 0
    [unexplained] = await found(ana, query="honey", user="mia", limit=1)
    assert unexplained["breakdown"] is None


async def test_the_same_request_again_adds_nothing(ana: Person) -> None:
    first = await remember(ana.http, "one", "two")
    again = await remember(ana.http, "one", "two")

    assert again == first
    assert sorted(await texts(ana)) == ["one", "two"]


async def test_a_text_without_facts_in_it_is_reported_and_not_lost_silently(ana: Person) -> None:
    body = {"text": "Hm, zxqv.", "user": "mia"}
    added = (await ana.http.post(MEMORIES, json=body)).json()

    assert added["results"] == []
    assert added["not_understood"] == ["Hm, zxqv."]
    assert added["made_by"] == "rules"


async def test_a_search_keeps_to_entities_filters_and_threshold(ana: Person) -> None:
    await remember(ana.http, "tea in the morning", metadata={"stars": 5})
    await remember(ana.http, "tea in the evening", metadata={"stars": 1})
    await remember(ana.http, "tea for nobody", user="tom")

    assert len(await found(ana, query="tea")) == 3
    assert [each["text"] for each in await found(ana, query="tea", user="tom")] == ["tea for nobody"]
    good = await found(ana, query="tea", user="mia", filters={"stars": {"gte": 4}})
    assert [each["text"] for each in good] == ["tea in the morning"]
    assert await found(ana, query="tea", threshold=1) == []
    assert len(await found(ana, query="tea", limit=2)) == 2


async def test_what_is_new_or_important_comes_first_when_asked_to(ana: Person) -> None:
    old, new = "2020-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
    await remember(ana.http, "the code is red", occurred_at=new, importance=0.1)
    await remember(ana.http, "the code is blue", occurred_at=old, importance=0.9)

    by_age = await found(ana, query="the code", recency=5, half_life_days=365)
    # So many half-lives have passed that nothing is left of being new.
    assert len(await found(ana, query="the code", recency=5, half_life_days=0.01)) == 2
    by_weight = await found(ana, query="the code", importance=5)

    assert [each["text"] for each in by_age] == ["the code is red", "the code is blue"]
    assert [each["text"] for each in by_weight] == ["the code is blue", "the code is red"]


async def test_what_is_nearly_nothing_counts_as_nothing(ana: Person) -> None:
    await remember(ana.http, "tea", importance=1e-69)

    [memory] = await found(ana, query="tea", importance=1e-69, recency=1e-69, threshold=1e-69)
    assert memory["importance"] == 0


async def test_a_context_stays_within_its_budget_and_says_what_it_saves(ana: Person) -> None:
    await remember(ana.http, *(f"The bakery number {n} sells bread and rolls." for n in range(30)))

    body = {"query": "bakery number 7", "user": "mia", "budget_tokens": 60}
    context = (await ana.http.post(f"{MEMORIES}/context", json=body)).json()

    assert 0 < context["tokens"] <= context["budget"] == 60
    assert "The bakery number 7 sells" in context["text"]
    assert len(context["ids"]) == len(context["text"].splitlines())
    assert context["saved"] == context["whole"] - context["tokens"] > 0


async def test_a_list_is_filtered_and_comes_in_pages(ana: Person, ben: Person) -> None:
    for n in range(5):
        await remember(ana.http, f"thing {n}", metadata={"even": n % 2 == 0})
    await remember(ana.http, "of tom", user="tom", run="r1")
    await remember(ana.http, "past", expires_at="2020-01-01T00:00:00Z")

    assert await texts(ana, run="r1") == ["of tom"]
    assert "past" not in await texts(ana)
    assert (await texts(ana, expired="true"))[0] == "past"
    even = {"user": "mia", "filters": json.dumps({"even": True})}
    assert await texts(ana, **even) == ["thing 4", "thing 2", "thing 0"]
    first = (await ana.http.get(MEMORIES, params={**even, "limit": 2})).json()
    rest = (await ana.http.get(MEMORIES, params={**even, "cursor": first["nextCursor"]})).json()
    assert [each["text"] for each in first["data"] + rest["data"]] == ["thing 4", "thing 2", "thing 0"]
    assert "nextCursor" not in rest

    elsewhere = {"user": "tom", "cursor": first["nextCursor"]}
    assert_problem(await ana.http.get(MEMORIES, params=elsewhere), 422, "invalid_cursor")
    of_another = {**even, "cursor": first["nextCursor"]}
    assert_problem(await ben.http.get(MEMORIES, params=of_another), 422, "invalid_cursor")


async def test_who_is_remembered_is_listed_in_pages(ana: Person, ben: Person) -> None:
    await remember(ana.http, "a", "b", user="mia", run="r1")
    await remember(ana.http, "c", user="tom", agent="helper")

    first = (await ana.http.get(f"{MEMORIES}/entities", params={"limit": 2})).json()
    cursor = {"cursor": first["nextCursor"]}
    rest = (await ana.http.get(f"{MEMORIES}/entities", params=cursor)).json()

    listed = [(each["type"], each["name"], each["memories"]) for each in first["data"] + rest["data"]]
    assert listed == [("agent", "helper", 1), ("run", "r1", 2), ("user", "mia", 2), ("user", "tom", 1)]
    refused = await ben.http.get(f"{MEMORIES}/entities", params=cursor)
    assert_problem(refused, 422, "invalid_cursor")


# One memory


async def test_a_memory_changes_and_its_history_tells_how(ana: Person) -> None:
    [memory] = await remember(ana.http, "Mia lives in Ulm.", expires_at="2030-01-01T00:00:00Z")
    place = f"{MEMORIES}/{memory}"

    changed = await ana.http.patch(place, json={"text": "Mia lives in Bonn.", "reason": "She moved."})
    said = "2026-02-01T00:00:00Z"
    noted = await ana.http.patch(
        place, json={"metadata": {"checked": True}, "expires_at": None, "occurred_at": said}
    )

    assert (changed.json()["text"], changed.json()["version"]) == ("Mia lives in Bonn.", 2)
    assert changed.json()["expires_at"] == "2030-01-01T00:00:00Z"
    assert (noted.json()["metadata"], noted.json()["expires_at"]) == ({"checked": True}, None)
    assert noted.json()["occurred_at"] == said
    assert (await ana.http.get(place)).json() == noted.json()
    versions = (await ana.http.get(f"{place}/history")).json()["data"]
    assert [(each["event"], each["previous"], each["reason"]) for each in versions] == [
        ("ADD", None, None),
        ("UPDATE", "Mia lives in Ulm.", "She moved."),
        ("UPDATE", "Mia lives in Bonn.", None),
    ]
    assert {each["actor"] for each in versions} == {str(ana.id)}
    assert (await found(ana, query="Bonn"))[0]["id"] == memory


async def test_a_deleted_memory_is_gone_and_comes_back_when_restored(ana: Person) -> None:
    [memory] = await remember(ana.http, "Mia likes rain.")
    place = f"{MEMORIES}/{memory}"

    assert (await ana.http.delete(place, params={"reason": "Not so."})).status_code == 204

    assert_problem(await ana.http.get(place), 404, "unknown_memory")
    assert_problem(await ana.http.delete(place), 404, "unknown_memory")
    assert await found(ana, query="rain") == []
    versions = (await ana.http.get(f"{place}/history")).json()["data"]
    assert (versions[-1]["event"], versions[-1]["reason"]) == ("DELETE", "Not so.")
    restored = await ana.http.post(f"{place}/restore", params={"reason": "So after all."})
    assert (restored.json()["text"], restored.json()["deleted_at"]) == ("Mia likes rain.", None)
    assert [each["id"] for each in await found(ana, query="rain")] == [memory]
    assert_problem(await ana.http.post(f"{place}/restore"), 404, "unknown_memory")


async def test_feedback_is_noted_and_taken_back(ana: Person) -> None:
    [memory] = await remember(ana.http, "Mia likes rain.")
    place = f"{MEMORIES}/{memory}/feedback"
    key = {"Idempotency-Key": "once"}

    bad = {"feedback": "NEGATIVE", "reason": "She does not."}
    for _ in range(2):
        noted = (await ana.http.post(place, json=bad, headers=key)).json()
    assert (noted["feedback"], noted["feedback_reason"], noted["version"]) == ("NEGATIVE", "She does not.", 2)
    taken_back = (await ana.http.post(place, json={"feedback": None})).json()
    assert (taken_back["feedback"], taken_back["feedback_reason"]) == (None, None)


async def test_what_is_superseded_is_left_out_unless_asked_for(ana: Person, database_url: str) -> None:
    [ulm] = await remember(ana.http, "Mia lives in Ulm.")
    [bonn] = await remember(ana.http, "Mia lives in Bonn.")
    await supersede(database_url, ulm, bonn)

    assert await texts(ana) == ["Mia lives in Bonn."]
    assert await texts(ana, superseded="true") == ["Mia lives in Bonn.", "Mia lives in Ulm."]
    assert [each["id"] for each in await found(ana, query="Ulm")] == [bonn]
    [best, *_] = await found(ana, query="Ulm", superseded=True)
    assert best["id"] == ulm
    old = (await ana.http.get(f"{MEMORIES}/{ulm}")).json()
    assert (old["superseded_by"], old["valid_until"] is None) == (bonn, False)


async def test_links_lead_both_ways_the_nearest_first(ana: Person, database_url: str) -> None:
    first, second, third = await remember(ana.http, "tea", "green tea", "black tea")
    await link(database_url, second, first, 0.9)
    await link(database_url, third, second, 0.95)

    answer = await ana.http.get(f"{MEMORIES}/{second}/links")

    assert [each["memory_id"] for each in answer.json()["data"]] == [third, first]
    assert [round(each["similarity"], 2) for each in answer.json()["data"]] == [0.95, 0.9]


# Many at once


async def test_all_of_somebody_are_deleted_and_nobody_elses(ana: Person, ben: Person) -> None:
    await remember(ana.http, "a", "b", user="mia")
    await remember(ana.http, "past", user="mia", expires_at="2020-01-01T00:00:00Z")
    await remember(ana.http, "c", user="tom")
    await remember(ben.http, "of ben", user="mia")

    deleted = await ana.http.delete(MEMORIES, params={"user": "mia", "reason": "asked to"})

    assert deleted.json() == {"deleted": 3}
    assert (await texts(ana, expired="true"), await texts(ben)) == (["c"], ["of ben"])


async def test_everything_is_deleted_only_when_that_is_said(ana: Person) -> None:
    await remember(ana.http, "a", user="mia")
    await remember(ana.http, "b", user="tom")

    for query in ({}, {"all": "false"}, {"reason": "oops"}):
        assert_problem(await ana.http.delete(MEMORIES, params=query), 422, "no_entity")
    for unclear in ("yes", "1", ""):
        assert_problem(await ana.http.delete(MEMORIES, params={"all": unclear}), 422, "invalid_input")
    assert len(await texts(ana)) == 2
    assert (await ana.http.delete(MEMORIES, params={"all": "true"})).json() == {"deleted": 2}
    assert await texts(ana) == []


# Tenants


async def test_two_tenants_meet_nothing_of_each_other(ana: Person, ben: Person) -> None:
    [memory] = await remember(ana.http, "Mia's door code is 4711.")
    [of_ben] = await remember(ben.http, "Mia's door code is 4711.")

    assert memory != of_ben
    assert [each["id"] for each in await found(ben, query="door code 4711")] == [of_ben]
    assert [each["memories"] for each in (await ben.http.get(f"{MEMORIES}/entities")).json()["data"]] == [1]
    for what in ("", "/history", "/links"):
        assert_problem(await ben.http.get(f"{MEMORIES}/{memory}{what}"), 404, "unknown_memory")
    body: dict[str, Any] = {"query": "door code", "budget_tokens": 100}
    context = (await ben.http.post(f"{MEMORIES}/context", json=body)).json()
    assert context["ids"] == [of_ben]


async def test_a_workspaces_memories_are_its_members_own_and_viewers_only_read(
    ana: Person, ben: Person, person: MakePerson
) -> None:
    eva, stranger = await person("eva@example.com"), await person("sam@example.com")
    workspace = await shared(ana, member=ben, viewer=eva)
    [memory] = await remember(ben.http, "The launch is in May.", workspace=workspace)
    [gone] = await remember(ben.http, "The launch is in April.", workspace=workspace)
    assert (await ben.http.delete(f"{MEMORIES}/{gone}")).status_code == 204
    place = f"{MEMORIES}/{memory}"

    assert await texts(ben) == []
    for reader in (ana, ben, eva):
        assert await texts(reader, workspace=workspace) == ["The launch is in May."]
        [hit] = await found(reader, query="launch", workspace=workspace)
        assert (hit["id"], hit["workspace"]) == (memory, workspace)
        assert (await reader.http.get(f"{place}/history")).status_code == 200
    about = {"user": "mia", "workspace": workspace}
    for refused in (
        await eva.http.post(MEMORIES, json={"text": "x", "infer": False, **about}),
        await eva.http.patch(place, json={"text": "x"}),
        await eva.http.patch(place, json={"metadata": {}}),
        await eva.http.delete(place),
        await eva.http.delete(MEMORIES, params=about),
        await eva.http.post(f"{place}/feedback", json={"feedback": "POSITIVE"}),
        await eva.http.post(f"{MEMORIES}/{gone}/restore"),
        await eva.http.post(f"{MEMORIES}/{gone}/restore", headers={"Idempotency-Key": "k"}),
        await eva.http.post(f"{MEMORIES}/{gone}/restore", headers={"Idempotency-Key": "k"}),
    ):
        assert_problem(refused, 403, "role_too_low")
    for refused in (
        await stranger.http.get(MEMORIES, params={"workspace": workspace}),
        await stranger.http.get(f"{MEMORIES}/entities", params={"workspace": workspace}),
        await stranger.http.post(f"{MEMORIES}/search", json={"query": "launch", "workspace": workspace}),
        await stranger.http.post(f"{MEMORIES}/context", json={"query": "launch", "workspace": workspace}),
        await stranger.http.post(MEMORIES, json={"text": "x", "infer": False, **about}),
        await stranger.http.delete(MEMORIES, params=about),
        await stranger.http.get(place),
    ):
        assert_problem(refused, 404)
    assert await texts(ana, workspace=workspace) == ["The launch is in May."]
    assert (await ben.http.patch(place, json={"text": "The launch is in June."})).status_code == 200
