"""Memories in the dashboard, as a browser without scripts sees them."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from uuid import uuid4

import httpx
import pytest

from recollect.access.models import NewUser
from recollect.bootstrap import Services
from recollect.web.memories_pages import PER_PAGE, VERSIONS_SHOWN
from tests.api.remembering import link, remember, supersede
from tests.conftest import Person

pytestmark = pytest.mark.anyio

EMAIL, PASSWORD = "eva@example.com", "correct horse"
HOSTILE = "</p><script>alert(1)</script>"


@pytest.fixture
async def eva(services: Services, anonymous: httpx.AsyncClient) -> Person:
    """Signed in; ``eva.http`` is her browser."""
    user = await services.access.create_user(NewUser(email=EMAIL, password=PASSWORD))
    answer = await anonymous.post("/sign-in", data={"email": EMAIL, "password": PASSWORD})
    assert answer.status_code == 303
    return Person(user.id, EMAIL, "", anonymous)


async def seen(browser: httpx.AsyncClient, path: str, status: int = 200) -> str:
    answer = await browser.get(path)
    assert answer.status_code == status, answer.text
    return looked_at(answer)


def looked_at(answer: httpx.Response) -> str:
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"<script|<style|<[^>]*\s(style|on\w+)=", answer.text)
    return answer.text


async def press(browser: httpx.AsyncClient, page: str, label: str, **fields: Any) -> httpx.Response:
    """Press the button of that name, as a browser does."""
    [form] = [form for form in re.findall(r"<form.*?</form>", page, re.DOTALL) if f">{label}<" in form]
    [action] = re.findall(r'action="([^"]+)"', form)
    for name in fields:
        assert f'name="{name}"' in form
    return await browser.post(action, data=fields, headers={"Sec-Fetch-Site": "same-origin"})


def text_of(page: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.partition("<main>")[2])))


def listed(page: str) -> list[str]:
    return re.findall(r'<td class="long"><a href="/memories/([0-9a-f-]{36})"', page)


async def test_strangers_are_asked_to_sign_in(anonymous: httpx.AsyncClient) -> None:
    one = f"/memories/{uuid4()}"
    asked = [
        await anonymous.get("/memories"),
        await anonymous.get("/memories?q=tea"),
        await anonymous.get(one),
        await anonymous.post(one, data={"text": "x"}),
        *[await anonymous.post(f"{one}/{action}") for action in ("feedback", "delete", "restore")],
    ]
    for answer in asked:
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


async def test_memories_are_listed_newest_first_and_nobody_elses(eva: Person, ana: Person) -> None:
    assert "recollect memories add" in await seen(eva.http, "/memories")
    assert '<a href="/memories">Memories</a>' in await seen(eva.http, "/")
    [first] = await remember(eva.http, "I keep bees.")
    [second] = await remember(eva.http, f"And a dog. {HOSTILE}", user=HOSTILE)
    await remember(ana.http, "a secret of ana's")

    page = await seen(eva.http, "/memories")

    assert listed(page) == [second, first]
    assert "a secret" not in page
    assert text_of(page).count("alert(1)") >= 2


async def test_whatever_a_memory_holds_is_inert_on_its_page(eva: Person, database_url: str) -> None:
    body = {
        "messages": [{"role": HOSTILE[:64], "name": HOSTILE, "content": HOSTILE}],
        "metadata": {HOSTILE: HOSTILE},
        "categories": [HOSTILE],
        "reason": HOSTILE,
        "infer": False,
        **dict.fromkeys(("user", "agent", "app", "run"), HOSTILE),
    }
    [added] = (await eva.http.post("/api/memories", json=body)).json()["results"]
    [other] = await remember(eva.http, HOSTILE)
    await link(database_url, added["id"], other, 0.9)
    await supersede(database_url, added["id"], other)
    place = f"/memories/{added['id']}"
    await eva.http.post(f"/api{place}/feedback", json={"feedback": "NEGATIVE", "reason": HOSTILE})
    await eva.http.patch(f"/api{place}", json={"text": f"{HOSTILE} and more", "metadata": {}})

    assert (await seen(eva.http, place)).count("alert(1)") > 10
    await eva.http.delete(f"/api{place}", params={"reason": HOSTILE})
    assert (await seen(eva.http, place)).count("alert(1)") > 5


async def test_a_list_is_narrowed_to_somebody_and_comes_in_pages(eva: Person) -> None:
    await remember(eva.http, *(f"turn {n}" for n in range(PER_PAGE + 1)), user="mia", run="r&1")
    [of_tom] = await remember(eva.http, "of tom", user="tom")

    assert listed(await seen(eva.http, "/memories?user=tom&agent=&app=&run=&q=&workspace=")) == [of_tom]
    first = await seen(eva.http, "/memories?run=r%261")
    assert '<option value="tom">1</option>' in first
    assert 'value="r&amp;1"' in first
    [older] = re.findall(r'href="([^"]+)" rel="next"', first)
    second = await seen(eva.http, unescape(older))
    assert (len(listed(first)), len(listed(second))) == (PER_PAGE, 1)
    assert not set(listed(first)) & set(listed(second))
    [about, *_] = re.findall(r'class="about" href="([^"]+)">run r&amp;1<', second)
    assert listed(await seen(eva.http, unescape(about))) == listed(first)
    assert "Nothing fits." in await seen(eva.http, "/memories?user=nobody")
    assert (await eva.http.get("/memories?user=tom&cursor=made-up")).headers[
        "location"
    ] == "/memories?user=tom"


async def test_a_search_says_what_each_score_is_made_of(eva: Person) -> None:
    [bees, _] = await remember(eva.http, "My bees live on the roof.", "The dog sleeps all day.")

    page = await seen(eva.http, "/memories?q=bees&user=mia")

    assert listed(page)[0] == bees
    assert 'value="bees"' in page
    for label in ("Score", "Words", "Meaning"):
        [value, *_] = re.findall(rf'<meter min="0" max="1" value="([0-9.]+)" aria-label="{label}">', page)
        assert 0 < float(value) <= 1
    assert "Nothing fits." in await seen(eva.http, "/memories?q=bees&user=nobody")
    refused = await seen(eva.http, f"/memories?q={'x' * 10_001}", 422)
    assert "at most 10,000 characters" in refused


async def test_a_memory_is_edited_and_its_history_is_a_diff(eva: Person) -> None:
    [memory] = await remember(eva.http, "Mia lives in Ulm.", metadata={"source": "chat"})
    page = await seen(eva.http, f"/memories/{memory}")
    assert '"source": "chat"' in unescape(page)

    saved = await press(eva.http, page, "Save", text="Mia lives in\r\nBonn.", reason="She moved.")

    assert (saved.status_code, saved.headers["location"]) == (303, f"/memories/{memory}")
    page = await seen(eva.http, f"/memories/{memory}")
    assert "<del>in Ulm.</del><ins>in\nBonn.</ins>" in page
    assert "She moved." in page
    assert "by you" in text_of(page)
    unchanged = await press(eva.http, page, "Save", text=" Mia lives in\r\nBonn. ", reason="")
    assert unchanged.status_code == 303
    assert (await eva.http.get(f"/api/memories/{memory}")).json()["version"] == 2


async def test_what_cannot_be_saved_is_told_and_stays_typed(eva: Person) -> None:
    [memory] = await remember(eva.http, "as it was")
    page = await seen(eva.http, f"/memories/{memory}")

    blank = await press(eva.http, page, "Save", text="  ", reason="kept <b>typed</b>")
    assert blank.status_code == 422
    assert "a memory says something" in looked_at(blank)
    assert 'value="kept &lt;b&gt;typed&lt;/b&gt;"' in blank.text
    long = await press(eva.http, page, "Save", text="x" * 50_001, reason="")
    assert (long.status_code, "50,000 characters" in long.text) == (422, True)
    wordy = await press(eva.http, page, "Save", text="new", reason="r" * 2_001)
    assert (wordy.status_code, "reason:" in wordy.text) == (422, True)
    assert (await eva.http.get(f"/api/memories/{memory}")).json()["text"] == "as it was"
    again = await eva.http.get(f"/memories/{memory}/delete")
    assert (again.status_code, again.headers["location"]) == (303, f"/memories/{memory}")


async def test_a_memory_is_judged_deleted_and_restored(eva: Person) -> None:
    [memory] = await remember(eva.http, "Mia likes rain.")
    place = f"/memories/{memory}"

    await press(
        eva.http, await seen(eva.http, place), "Note it", verdict="VERY_NEGATIVE", reason="She does not."
    )
    page = await seen(eva.http, place)
    assert '<span class="state failed">very negative</span>' in page
    assert "She does not." in page
    await press(eva.http, page, "Note it", verdict="", reason="")
    page = await seen(eva.http, place)
    assert "very negative</span>" not in page

    deleted = await press(eva.http, page, "Delete this memory", reason="Not so.")
    assert (deleted.status_code, deleted.headers["location"]) == (303, place)
    assert listed(await seen(eva.http, "/memories")) == []
    page = await seen(eva.http, place)
    assert "Deleted memory" in page
    assert "Not so." in page
    assert ">Save<" not in page
    assert (await press(eva.http, page, "Restore")).status_code == 303
    assert listed(await seen(eva.http, "/memories")) == [memory]
    refused = await eva.http.post(f"{place}/restore")
    assert (refused.status_code, "no such deleted memory" in refused.text) == (404, True)


async def test_a_memory_leads_to_what_superseded_it_and_what_says_nearly_the_same(
    eva: Person, database_url: str
) -> None:
    ulm, bonn, near = await remember(eva.http, "Mia lives in Ulm.", "Mia lives in Bonn.", "Bonn is home.")
    await supersede(database_url, ulm, bonn)
    await link(database_url, near, bonn, 0.93)

    assert listed(await seen(eva.http, "/memories")) == [near, bonn]
    everything = await seen(eva.http, "/memories?superseded=true")
    assert listed(everything) == [near, bonn, ulm]
    assert '<span class="state">superseded</span>' in everything
    assert f'by <a href="/memories/{bonn}">Mia lives in Bonn.</a>' in await seen(eva.http, f"/memories/{ulm}")
    page = await seen(eva.http, f"/memories/{bonn}")
    assert listed(page) == [near]
    assert 'value="0.930" aria-label="Similarity"' in page


async def test_a_long_history_shows_its_newest_part(eva: Person) -> None:
    [memory] = await remember(eva.http, "said")
    for n in range(VERSIONS_SHOWN):
        await eva.http.patch(f"/api/memories/{memory}", json={"metadata": {"n": n}})

    page = await seen(eva.http, f"/memories/{memory}")

    assert page.count("<li value=") == VERSIONS_SHOWN
    assert "And 1 older" in page
    assert "<del>48</del><ins>49</ins>" in page


async def test_anothers_memory_is_as_if_there_were_none(eva: Person, ana: Person) -> None:
    [memory] = await remember(ana.http, "a secret of ana's")
    for method, what in (("GET", ""), ("POST", ""), *(("POST", f"/{a}") for a in ("feedback", "delete"))):
        theirs = await eva.http.request(method, f"/memories/{memory}{what}", data={"text": "eva was here"})
        missing = await eva.http.request(method, f"/memories/{uuid4()}{what}", data={"text": "eva was here"})
        assert (theirs.status_code, theirs.text) == (404, missing.text)
        assert "There is no such memory" in theirs.text
    assert (await eva.http.post(f"/memories/{memory}/restore")).status_code == 404
    assert (await ana.http.get(f"/api/memories/{memory}")).json()["version"] == 1


async def test_a_workspace_shows_its_memories_and_viewers_cannot_change_them(
    eva: Person, ana: Person
) -> None:
    workspace = (await ana.http.post("/api/workspaces", json={"name": "Team"})).json()["id"]
    body = {"email": EMAIL, "role": "viewer"}
    assert (await ana.http.post(f"/api/workspaces/{workspace}/members", json=body)).status_code == 201
    [memory] = await remember(ana.http, "The launch is in May.", workspace=workspace)

    assert listed(await seen(eva.http, "/memories")) == []
    page = await seen(eva.http, f"/memories?workspace={workspace}")
    assert listed(page) == [memory]
    assert f'<option value="{workspace}" selected>Workspace Team</option>' in page
    assert listed(await seen(eva.http, f"/memories?workspace={workspace}&q=launch")) == [memory]
    page = await seen(eva.http, f"/memories/{memory}")
    assert "You are a viewer of this workspace" in page
    assert "<form" not in page.partition("<main>")[2]
    refused = await eva.http.post(f"/memories/{memory}", data={"text": "eva was here"})
    assert (refused.status_code, "Your role here does not allow that" in refused.text) == (403, True)
    assert (await ana.http.get(f"/api/memories/{memory}")).json()["text"] == "The launch is in May."
    for nowhere in (uuid4(), "nonsense"):
        answer = await eva.http.get(f"/memories?workspace={nowhere}")
        assert (answer.status_code, answer.headers["location"]) == (303, "/memories")


async def test_another_site_cannot_change_anything(eva: Person) -> None:
    [memory] = await remember(eva.http, "as it was")
    for what in ("", "/feedback", "/delete", "/restore"):
        answer = await eva.http.post(
            f"/memories/{memory}{what}", data={"text": "x"}, headers={"Sec-Fetch-Site": "cross-site"}
        )
        assert answer.status_code == 403
    assert (await eva.http.get(f"/api/memories/{memory}")).json()["version"] == 1
