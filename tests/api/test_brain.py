"""Facts about users and companies over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from recollect.settings import Settings
from tests.api.raw import assert_problem
from tests.conftest import Person, make_settings

pytestmark = pytest.mark.anyio

SERVICE_KEY = "the service key of the tests, long enough"
REGIME = {"slug": "company_tax_regime", "category": "company_tax", "content": "Régimen: ProPyme General"}


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, service_key=SERVICE_KEY)


@pytest.fixture
async def company(ana: Person) -> str:
    """Where a company of ana's is known about."""
    made = await ana.http.post("/api/companies", json={"name": "Acme"})
    return f"/api/companies/{made.json()['id']}/brain"


@pytest.fixture(params=["user", "company"])
def brain(request: pytest.FixtureRequest, ana: Person, company: str) -> str:
    """What ana may do she may do for herself and for her company."""
    return company if request.param == "company" else brain_of(ana)


def brain_of(person: Person) -> str:
    return f"/api/users/{person.id}/brain"


async def save(person: Person, brain: str, **facts: str) -> None:
    memories = [{"slug": slug, "content": content} for slug, content in facts.items()]
    answer = await person.http.post(brain, json={"memories": memories})
    assert answer.json()["success"], answer.text


async def known(person: Person, brain: str, **query: Any) -> dict[str, str]:
    answer = await person.http.get(brain, params=query)
    assert answer.status_code == 200, answer.text
    return {fact["slug"]: fact["content"] for fact in answer.json()["data"]}


async def changes(person: Person, brain: str, slug: str) -> list[tuple[str, str | None, str | None]]:
    answer = await person.http.get(f"{brain}/{slug}/history")
    return [(change["event"], change["before"], change["after"]) for change in answer.json()["data"]]


async def test_many_are_saved_at_once_and_listed_by_slug(ana: Person, brain: str) -> None:
    pet = {"slug": "pet", "content": "A dog", "extra_metadata": {"source": "chat"}}

    saved = await ana.http.post(brain, json={"memories": [REGIME, pet], "reason": "said so"})

    assert saved.status_code == 200
    assert saved.json() == {"success": True, "saved_count": 2, "failed_count": 0, "errors": []}
    regime, dog = (await ana.http.get(brain)).json()["data"]
    assert (regime["slug"], regime["content"], regime["category"]) == tuple(
        REGIME[name] for name in ("slug", "content", "category")
    )
    assert regime["extra_metadata"] == {"category": "company_tax"}
    assert (dog["category"], dog["extra_metadata"]) == (None, {"source": "chat"})
    [change] = (await ana.http.get(f"{brain}/pet/history")).json()["data"]
    assert (change["reason"], change["actor"]) == ("said so", str(ana.id))


async def test_what_cannot_be_saved_is_named_and_the_others_are_saved(ana: Person, brain: str) -> None:
    wrong = [{"slug": "Not A Slug", "content": "x"}, {"slug": "empty", "content": " "}, 7, {"slug": "b"}]

    saved = await ana.http.post(brain, json={"memories": [*wrong, REGIME]})

    assert saved.status_code == 200
    told = saved.json()
    assert (told["success"], told["saved_count"], told["failed_count"]) == (False, 1, 4)
    kind = "company" if "companies" in brain else "user"
    assert told["errors"][0].startswith(f"Error with {kind} memory Not A Slug: slug: ")
    assert list(await known(ana, brain)) == ["company_tax_regime"]


async def test_a_body_without_memories_is_refused(ana: Person, brain: str) -> None:
    wrong: list[Any] = [{}, {"memories": "many"}, {"memories": [], "more": 1}, {"memories": None}, []]
    for body in wrong:
        assert_problem(await ana.http.post(brain, json=body), 422, "invalid_input")


async def test_a_dry_run_says_what_would_change_and_changes_nothing(ana: Person, brain: str) -> None:
    await save(ana, brain, pet="A dog", city="Lima")
    memories = [
        {"slug": "pet", "content": "A cat"},
        {"slug": "city", "content": "Lima"},
        {"slug": "job", "content": "Baker"},
        {"slug": "NO", "content": "x"},
    ]

    planned = await ana.http.post(f"{brain}?dry_run=true", json={"memories": memories})

    assert planned.status_code == 200
    *plans, refused = planned.json()["data"]
    assert {(each["slug"], each["change"], each["before"], each["after"]) for each in plans} == {
        ("pet", "update", "A dog", "A cat"),
        ("city", "unchanged", "Lima", "Lima"),
        ("job", "create", None, "Baker"),
    }
    assert (refused["slug"], refused["change"]) == ("NO", "refused")
    assert "slug" in refused["error"]
    assert await known(ana, brain) == {"city": "Lima", "pet": "A dog"}


async def test_a_list_comes_in_pages_of_one_category_where_wanted(ana: Person, brain: str) -> None:
    await save(ana, brain, a="1", b="2", c="3")
    await ana.http.put(f"{brain}/d", json={"content": "4", "category": "some"})
    await ana.http.put(f"{brain}/e", json={"content": "5", "category": "some"})

    first = (await ana.http.get(brain, params={"limit": 2})).json()
    rest = await known(ana, brain, cursor=first["nextCursor"])

    assert [fact["slug"] for fact in first["data"]] == ["a", "b"]
    assert list(rest) == ["c", "d", "e"]
    some = (await ana.http.get(brain, params={"limit": 1, "category": "some"})).json()
    assert [fact["slug"] for fact in some["data"]] == ["d"]
    assert list(await known(ana, brain, category="some", cursor=some["nextCursor"])) == ["e"]
    other = await ana.http.get(brain, params={"cursor": some["nextCursor"]})
    assert_problem(other, 422, "invalid_cursor")


async def test_a_query_finds_the_best_with_their_scores(ana: Person, brain: str) -> None:
    await save(ana, brain, city="Lives in Lima", pet="Has a dog named Rex")
    await ana.http.put(f"{brain}/toy", json={"content": "A dog of plush", "category": "things"})

    found = (await ana.http.get(brain, params={"query": "dog named Rex"})).json()
    one = (await ana.http.get(brain, params={"query": "dog", "limit": 1})).json()

    assert found["data"][0]["slug"] == "pet"
    assert 0 < found["data"][0]["score"] <= 1
    assert "nextCursor" not in found
    assert len(one["data"]) == 1
    assert list(await known(ana, brain, query="dog", category="things")) == ["toy"]
    for wrong in ({"query": " "}, {"query": "x" * 2_001}, {"query": "dog", "cursor": "x"}):
        assert_problem(await ana.http.get(brain, params=wrong), 422)


async def test_one_fact_is_put_read_and_deleted(ana: Person, brain: str) -> None:
    put = await ana.http.put(
        f"{brain}/pet",
        json={"content": "  A dog ", "category": "home", "extra_metadata": {"age": 3}, "reason": "she said"},
    )
    read = await ana.http.get(f"{brain}/pet")
    assert put.status_code == read.status_code == 200
    assert put.json() == read.json()
    assert (read.json()["content"], read.json()["category"]) == ("A dog", "home")
    assert read.json()["extra_metadata"] == {"age": 3, "category": "home"}

    replaced = await ana.http.put(f"{brain}/pet", json={"content": "A cat"})
    assert (replaced.json()["id"], replaced.json()["category"]) == (put.json()["id"], None)
    gone = await ana.http.delete(f"{brain}/pet", params={"reason": "it ran away"})
    assert (gone.status_code, gone.content) == (204, b"")
    assert_problem(await ana.http.get(f"{brain}/pet"), 404, "unknown_slug")
    assert_problem(await ana.http.delete(f"{brain}/pet"), 404, "unknown_slug")
    history = (await ana.http.get(f"{brain}/pet/history")).json()["data"]
    assert [change["reason"] for change in history] == ["it ran away", None, "she said"]


async def test_a_wrong_slug_or_content_is_refused_with_the_reason(ana: Person, brain: str) -> None:
    for slug in ("Pet", "pet-1", "x" * 256, "pet%20"):
        problem = assert_problem(
            await ana.http.put(f"{brain}/{slug}", json={"content": "x"}), 422, "invalid_input"
        )
        assert "a-z, 0-9 and _ alone" in problem["detail"]
    for body in (
        {},
        {"content": "   "},
        {"content": "x" * 50_001},
        {"content": 1},
        {"content": "x", "slug": "other"},
        {"content": "x", "category": ""},
        {"content": "x", "extra_metadata": []},
        {"content": "x", "extra_metadata": {"much": "x" * 100_000}},
    ):
        assert_problem(await ana.http.put(f"{brain}/pet", json=body), 422, "invalid_input")
    assert await known(ana, brain) == {}


async def test_history_comes_in_pages_newest_first(ana: Person, brain: str) -> None:
    for content in ("one", "two", "three"):
        await ana.http.put(f"{brain}/n", json={"content": content})

    first = (await ana.http.get(f"{brain}/n/history", params={"limit": 2})).json()
    rest = await ana.http.get(f"{brain}/n/history", params={"cursor": first["nextCursor"]})

    assert [change["after"] for change in first["data"]] == ["three", "two"]
    assert [change["event"] for change in rest.json()["data"]] == ["ADD"]
    assert_problem(await ana.http.get(f"{brain}/other/history"), 404, "unknown_slug")


async def test_the_last_change_is_taken_back(ana: Person, brain: str) -> None:
    undo = f"{brain}/pet/undo"
    await ana.http.put(f"{brain}/pet", json={"content": "A dog", "category": "home"})
    await ana.http.put(f"{brain}/pet", json={"content": "A cat"})

    updated = await ana.http.post(undo)
    fact = (await ana.http.get(f"{brain}/pet")).json()
    assert updated.status_code == 200
    assert (updated.json()["before"], updated.json()["after"]) == ("A cat", "A dog")
    assert (fact["content"], fact["extra_metadata"]) == ("A dog", {"category": "home"})

    await ana.http.delete(f"{brain}/pet")
    deleted = await ana.http.post(undo, params={"reason": "too early"})
    assert (deleted.json()["event"], deleted.json()["reason"]) == ("ADD", "too early")
    assert (await ana.http.get(f"{brain}/pet")).json()["category"] == "home"

    added = await ana.http.post(undo)
    assert (added.json()["event"], added.json()["before"]) == ("DELETE", "A dog")
    assert_problem(await ana.http.get(f"{brain}/pet"), 404, "unknown_slug")
    assert [event for event, _, _ in await changes(ana, brain, "pet")] == [
        *("DELETE", "ADD", "DELETE", "UPDATE", "UPDATE", "ADD")
    ]
    assert_problem(await ana.http.post(f"{brain}/other/undo"), 404, "unknown_slug")


async def test_a_change_that_is_not_the_last_any_more_is_not_undone(ana: Person, brain: str) -> None:
    await ana.http.put(f"{brain}/pet", json={"content": "A dog"})
    await ana.http.put(f"{brain}/pet", json={"content": "A cat"})
    seen = (await ana.http.get(f"{brain}/pet/history")).json()["data"][0]["id"]
    which = {"change": seen}

    assert (await ana.http.post(f"{brain}/pet/undo", params=which)).status_code == 200
    assert_problem(await ana.http.post(f"{brain}/pet/undo", params=which), 409, "changed_since")

    assert await known(ana, brain) == {"pet": "A dog"}


async def test_strangers_find_nothing_and_members_find_it_all(
    ana: Person, ben: Person, admin: Person, company: str
) -> None:
    await save(ana, company, motto="Ever onward")
    for stranger in (ben, admin):
        assert_problem(await stranger.http.get(company), 404, "unknown_owner")
        assert_problem(await stranger.http.get(f"{company}/motto"), 404, "unknown_slug")
        assert_problem(await stranger.http.post(company, json={"memories": [REGIME]}), 404)
        assert_problem(await stranger.http.put(f"{company}/motto", json={"content": "x"}), 404)
        assert_problem(await stranger.http.delete(f"{company}/motto"), 404)
        assert_problem(await stranger.http.post(f"{company}/motto/undo"), 404)

    members = company.replace("/brain", "/members")
    await ana.http.post(members, json={"email": ben.email, "role": "member"})

    assert (await ben.http.put(f"{company}/motto", json={"content": "Onward"})).status_code == 200
    [change, _] = (await ana.http.get(f"{company}/motto/history")).json()["data"]
    assert (change["actor"], change["after"]) == (str(ben.id), "Onward")


async def test_an_admin_acts_for_the_user_in_the_path_and_others_do_not(
    ana: Person, ben: Person, admin: Person
) -> None:
    await save(ana, brain_of(ana), pet="A dog")

    changed = await admin.http.put(f"{brain_of(ana)}/pet", json={"content": "A cat"})

    assert changed.json()["content"] == "A cat"
    [change, _] = (await ana.http.get(f"{brain_of(ana)}/pet/history")).json()["data"]
    assert change["actor"] == str(admin.id)
    assert_problem(await ben.http.get(brain_of(ana)), 404)
    assert_problem(await admin.http.get(f"/api/users/{uuid4()}/brain"), 404)


async def test_the_service_key_acts_for_any_user_and_any_company(
    ana: Person, company: str, anonymous: httpx.AsyncClient
) -> None:
    anonymous.headers["Authorization"] = f"Bearer {SERVICE_KEY}"
    for brain in (brain_of(ana), company):
        saved = await anonymous.post(brain, json={"memories": [REGIME]})
        put = await anonymous.put(f"{brain}/pet", json={"content": "A dog"})
        found = await anonymous.get(brain, params={"query": "régimen"})
        await anonymous.delete(f"{brain}/pet")
        undone = await anonymous.post(f"{brain}/pet/undo")

        assert saved.json()["saved_count"] == 1, saved.text
        assert put.json()["content"] == "A dog"
        assert found.json()["data"][0]["slug"] == "company_tax_regime"
        assert undone.json()["after"] == "A dog"
        assert list(await known(ana, brain)) == ["company_tax_regime", "pet"]
    for nowhere in (f"/api/users/{uuid4()}/brain", f"/api/companies/{uuid4()}/brain"):
        assert_problem(await anonymous.get(nowhere), 404)
        assert_problem(await anonymous.post(nowhere, json={"memories": [REGIME]}), 404)
    # Elsewhere a company's address does not let it in.
    assert_problem(await anonymous.get(company.removesuffix("/brain")), 403, "not_allowed")


async def test_ids_that_are_none_are_refused(ana: Person) -> None:
    for path in ("/api/users/me/brain", "/api/companies/7/brain", "/api/companies/7/brain/pet"):
        assert_problem(await ana.http.get(path), 422, "invalid_input")


async def test_the_memory_of_a_fact_cannot_be_made_to_expire(ana: Person, brain: str) -> None:
    fact = (await ana.http.put(f"{brain}/pet", json={"content": "A dog"})).json()

    refused = await ana.http.patch(
        f"/api/memories/{fact['memory_id']}", json={"expires_at": "2030-01-01T00:00:00Z"}
    )

    problem = assert_problem(refused, 409, "conflict")
    assert "does not expire" in problem["detail"]
