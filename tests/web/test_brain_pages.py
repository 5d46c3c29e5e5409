"""What is known about people and companies in the dashboard, as a browser without scripts sees it."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from recollect.web.brain_pages import CHANGES_SHOWN, PER_PAGE
from tests.conftest import Person
from tests.web.test_memories_pages import HOSTILE, eva, looked_at, press, seen, text_of

__all__ = ["eva"]

pytestmark = pytest.mark.anyio


@pytest.fixture
async def acme(eva: Person) -> str:
    made = await eva.http.post("/api/companies", json={"name": f"Acme {HOSTILE}"})
    company_id: str = made.json()["id"]
    return company_id


async def save(person: Person, company: str | None = None, **facts: str) -> None:
    path = f"/api/companies/{company}" if company else f"/api/users/{person.id}"
    memories = [{"slug": slug, "content": content, "category": "some"} for slug, content in facts.items()]
    answer = await person.http.post(f"{path}/brain", json={"memories": memories})
    assert answer.json()["success"], answer.text


async def known(person: Person, company: str | None = None) -> dict[str, str]:
    path = f"/api/companies/{company}" if company else f"/api/users/{person.id}"
    answer = await person.http.get(f"{path}/brain")
    return {fact["slug"]: fact["content"] for fact in answer.json()["data"]}


def listed(page: str) -> list[str]:
    return re.findall(r'<td class="long"><a href="/brain/[^/"]+/([a-z0-9_]+)"', page)


async def test_strangers_are_asked_to_sign_in(anonymous: httpx.AsyncClient) -> None:
    asked = [
        await anonymous.get("/brain"),
        await anonymous.get("/brain?q=tea"),
        await anonymous.get("/brain/me/pet"),
        await anonymous.post("/brain", data={"slug": "pet", "content": "x"}),
        await anonymous.post("/brain/me/pet", data={"content": "x"}),
        await anonymous.post("/brain/me/pet/delete"),
        await anonymous.post("/brain/me/pet/undo"),
    ]
    for answer in asked:
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


async def test_facts_are_listed_of_oneself_or_of_a_company_and_nobody_elses(
    eva: Person, ana: Person, acme: str
) -> None:
    assert "recollect brain set user_city" in await seen(eva.http, "/brain")
    assert '<a href="/brain">Brain</a>' in await seen(eva.http, "/")
    await save(eva, pet="A dog", city="Lives in Lima")
    await save(eva, acme, motto="Onward")
    await save(ana, secret="a secret of ana's")
    anas = (await ana.http.post("/api/companies", json={"name": "Ana's"})).json()["id"]

    mine, ours = await seen(eva.http, "/brain"), await seen(eva.http, f"/brain?whose={acme}")

    assert (listed(mine), listed(ours)) == (["city", "pet"], ["motto"])
    assert f'href="/brain?whose={acme}"' in mine
    assert "Ana's" not in unescape(mine)
    for elsewhere in (f"/brain?whose={anas}", f"/brain/{anas}/secret", f"/brain/{ana.id}/secret"):
        away = await eva.http.get(elsewhere)
        assert (away.status_code, away.headers["location"]) == (303, "/brain")


async def test_whatever_a_fact_holds_is_inert(eva: Person, acme: str) -> None:
    body = {
        "content": HOSTILE,
        "category": HOSTILE,
        "extra_metadata": {HOSTILE: HOSTILE},
        "reason": HOSTILE,
    }
    place = f"/api/companies/{acme}/brain/motto"
    for content in (HOSTILE, f"{HOSTILE} and more"):
        assert (await eva.http.put(place, json={**body, "content": content})).status_code == 200

    assert (await seen(eva.http, f"/brain?whose={acme}")).count("alert(1)") > 4
    assert (await seen(eva.http, f"/brain?whose={acme}&q=alert")).count("alert(1)") > 4
    assert (await seen(eva.http, f"/brain/{acme}/motto")).count("alert(1)") > 8
    await eva.http.delete(place, params={"reason": HOSTILE})
    assert (await seen(eva.http, f"/brain/{acme}/motto")).count("alert(1)") > 8


async def test_a_list_comes_in_pages_and_of_one_category(eva: Person) -> None:
    await save(eva, **{f"n_{number:02}": "x" for number in range(PER_PAGE + 1)})
    await eva.http.put(f"/api/users/{eva.id}/brain/odd", json={"content": "x", "category": "a&b"})

    first = await seen(eva.http, "/brain?category=some")
    [more] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = await seen(eva.http, unescape(more))

    assert (len(listed(first)), listed(second)) == (PER_PAGE, [f"n_{PER_PAGE}"])
    assert listed(await seen(eva.http, "/brain?category=a%26b")) == ["odd"]
    assert "Nothing fits." in await seen(eva.http, "/brain?category=none")
    away = await eva.http.get("/brain?category=some&cursor=made-up")
    assert away.headers["location"] == "/brain?category=some"
    assert (await eva.http.get("/brain/me/Not-A-Slug")).status_code == 422


async def test_a_search_shows_scores(eva: Person) -> None:
    await save(eva, pet="Has a dog named Rex", city="Lives in Lima")

    page = await seen(eva.http, "/brain?q=dog+named+Rex")

    assert listed(page)[0] == "pet"
    [score, *_] = re.findall(r'<meter min="0" max="1" value="([0-9.]+)" aria-label="Score">', page)
    assert 0 < float(score) <= 1


async def test_a_fact_is_added_and_one_that_is_known_is_not_overwritten(eva: Person, acme: str) -> None:
    for whose, address in ((None, "/brain"), (acme, f"/brain?whose={acme}")):
        fields = {"slug": "motto", "content": "Onward\r\nand up ", "category": "brand", "reason": "so it is"}
        if whose:
            fields["whose"] = whose
        page = await seen(eva.http, address)
        added = await press(eva.http, page, "Add", **fields)
        assert added.headers["location"] == f"/brain/{whose or 'me'}/motto"
        assert await known(eva, whose) == {"motto": "Onward\nand up"}

        again = looked_at(await press(eva.http, page, "Add", **{**fields, "content": "Backward"}))
        assert "Something is known under that slug already" in again
        assert "Backward" in again
        for slug in ("Not a slug", "", "x" * 256):
            wrong = await press(eva.http, page, "Add", **{**fields, "slug": slug})
            assert (wrong.status_code, "slug: " in looked_at(wrong)) == (422, True)
        assert await known(eva, whose) == {"motto": "Onward\nand up"}


async def test_a_fact_is_edited_and_its_history_is_a_diff(eva: Person) -> None:
    fact = {"content": "Lives in Lima.", "category": "home", "extra_metadata": {"source": "chat"}}
    await eva.http.put(f"/api/users/{eva.id}/brain/city", json=fact)
    page = await seen(eva.http, "/brain/me/city")

    saved = await press(eva.http, page, "Save", content="Lives in Bonn.", category="", reason="She moved.")

    assert saved.headers["location"] == "/brain/me/city"
    after = await seen(eva.http, "/brain/me/city")
    assert "Lives in <del>Lima.</del><ins>Bonn.</ins>" in after
    assert "She moved." in after
    assert "by you" in text_of(after)
    kept = (await eva.http.get(f"/api/users/{eva.id}/brain/city")).json()
    assert (kept["category"], kept["extra_metadata"]) == (None, {"source": "chat"})
    refused = looked_at(await press(eva.http, page, "Save", content=" ", category="", reason="Why not"))
    assert 'role="alert"' in refused
    assert 'value="Why not"' in refused


async def test_what_is_forgotten_is_brought_back_and_a_change_undone_once(eva: Person) -> None:
    await save(eva, pet="A dog")
    await save(eva, pet="A cat")
    page = await seen(eva.http, "/brain/me/pet")

    await press(eva.http, page, "Undo this change", change=_last(page))
    assert await known(eva) == {"pet": "A dog"}
    late = looked_at(await press(eva.http, page, "Undo this change", change=_last(page)))
    assert "Something has changed it since" in late
    assert await known(eva) == {"pet": "A dog"}

    page = await seen(eva.http, "/brain/me/pet")
    gone = await press(eva.http, page, "Forget this fact", reason="It ran away.")
    assert (gone.headers["location"], await known(eva)) == ("/brain/me/pet", {})
    page = await seen(eva.http, "/brain/me/pet")
    assert "It ran away." in page
    assert "Save" not in page
    await press(eva.http, page, "Bring it back", change=_last(page))
    assert await known(eva) == {"pet": "A dog"}
    assert (await eva.http.get("/brain/me/pet/undo")).headers["location"] == "/brain/me/pet"


def _last(page: str) -> str:
    return str(re.findall(r'name="change" value="(\d+)"', page)[0])


async def test_what_never_was_is_unknown(eva: Person) -> None:
    assert "Unknown fact" in await seen(eva.http, "/brain/me/nothing", 404)


async def test_a_long_history_is_cut(eva: Person) -> None:
    for number in range(CHANGES_SHOWN + 1):
        await save(eva, pet=f"Pet {number}")

    page = await seen(eva.http, "/brain/me/pet")

    assert page.count('<span class="state">') == CHANGES_SHOWN
    assert "recollect brain history pet" in page
