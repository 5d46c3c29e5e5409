"""The profile in the dashboard, as a browser without scripts sees it."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from recollect.bootstrap import Services
from recollect.web.profile_pages import PER_PAGE
from tests.conftest import Person
from tests.web.test_memories_pages import HOSTILE, eva, looked_at, press, seen, text_of

__all__ = ["eva"]

pytestmark = pytest.mark.anyio

CRITIC = {
    "name": "Inner Critic",
    "status": "active",
    "recency_score": 0.9,
    "influence_score": 0.7,
    "goals": [{"goal": "To feel safer during presentations."}],
    "colour": "red",
}
SPEAKING = {"trigger": "Public speaking", "desired_outcome": "Feel calm", "related_parts": ["critic"]}


async def put(person: Person, **fields: Any) -> None:
    path = f"/api/users/{person.id}/profile"
    document = (await person.http.get(path)).json() | fields
    answer = await person.http.put(path, json=document)
    assert answer.status_code == 200, answer.text


async def now(person: Person) -> Any:
    return (await person.http.get(f"/api/users/{person.id}/profile")).json()


async def test_strangers_are_asked_to_sign_in(anonymous: httpx.AsyncClient) -> None:
    asked = [
        *[await anonymous.get(f"/profile{path}") for path in ("", "/history", "/compare?from=1")],
        *[
            await anonymous.post(f"/profile/{path}", data={"version": "1", "content": "x"})
            for path in ("note", "update", "restore", "undo")
        ],
    ]
    for answer in asked:
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


async def test_the_state_is_readable_and_one_s_own(eva: Person, ana: Person) -> None:
    assert "Nothing is stored yet" in text_of(await seen(eva.http, "/profile"))
    assert "Nothing is stored yet" in text_of(await seen(eva.http, "/profile/history"))
    assert '<a href="/profile">Profile</a>' in await seen(eva.http, "/")
    await put(ana, summary="a secret of ana's")
    await put(eva, summary="Calm of late.", parts={"critic": CRITIC}, triggers_and_goals=[SPEAKING])
    await put(eva, parts={"critic": CRITIC | {"recency_score": 0.4}}, safety_notes="Slowly.", mood={"is": 1})
    await put(eva, goals=[{"goal": "Sleep more."}])

    page = await seen(eva.http, "/profile")

    text = text_of(page)
    for told in (
        "Version 3",
        "Goals Sleep more.",
        "Calm of late.",
        "Inner Critic active",
        "0.40",
        "0.70",
        "Public speaking",
    ):
        assert told in text
    for told in ("To feel safer during presentations.", "Feel calm", "Slowly.", '{ "is": 1 }', "colour"):
        assert told in text
    assert 'points="0.0,2.0 50.0,12.0 100.0,12.0"' in page
    assert "a secret" not in page
    before = await seen(eva.http, "/profile?version=1")
    assert "0.90" in text_of(before)
    assert "Restore version 1" in before
    assert (await eva.http.get("/profile?version=9")).headers["location"] == "/profile"


async def test_whatever_a_profile_holds_is_inert(eva: Person, services: Services) -> None:
    part = dict.fromkeys(("name", "status", "other"), HOSTILE) | {"goals": [{"goal": HOSTILE}]}
    await put(
        eva,
        **{"summary": HOSTILE, "safety_notes": HOSTILE, HOSTILE: HOSTILE, "last_updated_by": HOSTILE},
        parts={HOSTILE: part},
        triggers_and_goals=[{"trigger": HOSTILE, "desired_outcome": HOSTILE, "related_parts": [HOSTILE]}],
    )
    assert (await seen(eva.http, "/profile")).count("alert(1)") > 8
    assert (await seen(eva.http, "/profile/history")).count("alert(1)") > 4
    assert (await seen(eva.http, "/profile/compare?from=1&to=0")).count("alert(1)") > 4


async def test_the_history_shows_what_each_version_changed(eva: Person) -> None:
    for number in range(PER_PAGE + 2):
        await put(eva, summary=f"Lives in place {number}")

    first = await seen(eva.http, "/profile/history")
    [older] = re.findall(r'href="(/profile/history\?before=\d+)"', first)
    rest = await seen(eva.http, older)

    assert "Lives in place <del>20</del><ins>21</ins>" in first
    assert re.findall(r">Version (\d+)</a>", first + rest) == [str(n) for n in range(PER_PAGE + 2, 0, -1)]
    assert "<ins>Lives in place 0</ins>" in rest
    assert "last_updated_by" not in rest
    assert "safety_notes" not in rest
    assert "Older" not in rest


async def test_any_two_versions_are_compared(eva: Person) -> None:
    await put(eva, summary="Lives in Lima")
    await put(eva, parts={"critic": CRITIC})
    await put(eva, summary="Lives in Bonn")
    page = await seen(eva.http, "/profile/compare?from=1&to=3")
    assert "Lives in <del>Lima</del><ins>Bonn</ins>" in page
    assert "parts.critic" in page
    assert "From version 3 to version 1" in await seen(eva.http, "/profile/compare?from=3&to=1")
    assert (await eva.http.get("/profile/compare?from=9")).headers["location"] == "/profile"


async def test_going_back_asks_first_and_is_a_new_version(eva: Person) -> None:
    await put(eva, summary="one")
    await put(eva, summary="two")
    await put(eva, mood="calm")

    undone = await press(
        eva.http, await seen(eva.http, "/profile/history"), "Undo version 2", version="2", reason="a slip"
    )
    assert (undone.status_code, undone.headers["location"]) == (303, "/profile/history")
    document = await now(eva)
    assert (document["version"], document["summary"], document["mood"]) == (4, "one", "calm")
    page = await seen(eva.http, "/profile/history")
    assert "by you: a slip" in text_of(page)
    restored = await press(eva.http, page, "Restore version 2", version="2")
    assert restored.headers["location"] == "/profile"
    assert (await now(eva))["summary"] == "two"
    for typed, told in (("9", "no version 9"), ("x", "by its number"), ("9" * 30, "by its number")):
        refused = await press(eva.http, page, "Restore version 2", version=typed)
        assert told in text_of(looked_at(refused))
    assert (await eva.http.get("/profile/restore")).headers["location"] == "/profile/history"


async def test_what_was_changed_again_since_cannot_be_undone(eva: Person) -> None:
    for summary in ("one", "two", "three"):
        await put(eva, summary=summary)
    page = await seen(eva.http, "/profile/history")
    refused = await press(eva.http, page, "Undo version 2", version="2")
    assert refused.status_code == 409
    assert "/summary" in text_of(looked_at(refused))
    assert (await now(eva))["summary"] == "three"


async def test_a_note_is_recorded_and_an_update_asked_for(eva: Person, services: Services) -> None:
    page = await seen(eva.http, "/profile")
    noted = await press(eva.http, page, "Note it", content="My goal is to feel calm at work.")
    assert noted.headers["location"] == "/profile"
    empty = await press(eva.http, page, "Note it", content=" ")
    assert (empty.status_code, "says nothing" in text_of(looked_at(empty))) == (422, True)
    asked = await press(eva.http, page, "Bring it up to date now")
    assert re.fullmatch(r"/jobs/[0-9a-f-]{36}", asked.headers["location"])
    await services.updater.update(eva.id)
    text = text_of(await seen(eva.http, "/profile"))
    assert "updated version 1 rules 1 0, 0" in text
    assert "calm at work" in text
