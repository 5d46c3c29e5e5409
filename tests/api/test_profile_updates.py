"""Activities and updates of profiles over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from recollect.bootstrap import Services
from recollect.settings import Settings
from tests.api.raw import assert_problem
from tests.api.test_profile import of, read
from tests.api.working import until_ended
from tests.conftest import Person, make_settings, until, working

pytestmark = pytest.mark.anyio

SERVICE_KEY = "the service key of the tests, long enough"
CRON_SECRET = "the secret of the crons"
PROMPTS = "/api/profile/prompts"


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    return make_settings(home, database_url, service_key=SERVICE_KEY, cron_secret=CRON_SECRET)


async def record(person: Person, *activities: dict[str, Any]) -> Any:
    answer = await person.http.post(of(person, "/activity"), json={"activities": activities})
    assert answer.status_code == 200, answer.text
    return answer.json()


def note(content: str, **more: Any) -> dict[str, Any]:
    return {"kind": "note", "content": content, **more}


async def test_activities_are_recorded_listed_and_deleted(ana: Person) -> None:
    session = {"kind": "session", "happened_at": "2026-01-02T03:04:05Z", "data": {"part": "critic"}}
    told = await record(ana, session, note("one", external_id="n1"), note("two"))
    again = await record(ana, note("changed", external_id="n1"), note("three"))

    assert (told, again) == ({"recorded": 3, "known": 0}, {"recorded": 1, "known": 1})
    first = await read(ana, "/activity", limit=3)
    rest = await read(ana, "/activity", limit=3, cursor=first["nextCursor"])
    found = first["data"] + rest["data"]
    assert {each["content"] for each in found} == {"", "one", "two", "three"}
    [kept] = (await read(ana, "/activity", kind="session"))["data"]
    assert (kept["happened_at"], kept["data"]) == ("2026-01-02T03:04:05Z", {"part": "critic"})
    assert kept["considered_in"] is None
    gone = await ana.http.delete(of(ana, f"/activity/{kept['id']}"))
    assert gone.status_code == 204
    assert (await read(ana, "/activity", kind="session"))["data"] == []
    assert_problem(await ana.http.delete(of(ana, f"/activity/{kept['id']}")), 404, "unknown_activity")


async def test_what_is_no_activity_is_refused_whole(ana: Person) -> None:
    wrong: list[Any] = [
        {"activities": []},
        {"activities": [note("x")] * 1_001},
        {"activities": [note("fine"), {"kind": "song"}]},
        {"activities": [note("x" * 20_001)]},
        {"activities": [note("x", happened_at="yesterday")]},
        {"activities": [note("x", data=[])]},
        note("not in a list"),
    ]
    for body in wrong:
        assert_problem(await ana.http.post(of(ana, "/activity"), json=body), 422, "invalid_input")
    assert await read(ana, "/activity") == {"data": []}
    assert (await record(ana, *[note("x")] * 1_000))["recorded"] == 1_000


async def test_an_update_on_demand_is_one_job_however_often_it_is_asked_for(
    services: Services, ana: Person
) -> None:
    await record(ana, note("My goal is to feel safer during presentations."))
    first = await ana.http.post(of(ana, "/update"))
    again = await ana.http.post(of(ana, "/update"))

    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    assert (first.json()["task"], first.json()["state"]) == ("profile.update", "waiting")
    assert (await ana.http.get(f"/api/jobs/{first.json()['id']}")).status_code == 200
    async with working(services):
        ended = await until_ended(services, UUID(first.json()["id"]))
    assert (ended.state, ended.result) == ("succeeded", {"state": "updated", "version": 1, "error": None})
    assert (await read(ana))["last_updated_by"] == "system"
    [run] = (await read(ana, "/updates"))["data"]
    assert (run["state"], run["made_by"], run["activities"]) == ("updated", "rules", 1)
    assert (run["from_version"], run["to_version"], run["input_tokens"]) == (0, 1, 0)
    [kept] = (await read(ana, "/activity"))["data"]
    assert kept["considered_in"] == run["id"]


async def test_the_daily_job_updates_whoever_was_active(
    ana: Person, ben: Person, anonymous: httpx.AsyncClient, worker: None
) -> None:
    await record(ana, note("My goal is to feel safer during presentations."))

    asked = await anonymous.post(
        "/api/cron/memory-update", headers={"Authorization": f"Bearer {CRON_SECRET}"}
    )

    assert (asked.status_code, asked.json()["is_new"]) == (202, True)

    async def is_updated() -> bool:
        return bool((await read(ana))["version"])

    await until(is_updated)
    [version] = (await read(ana, "/history"))["data"]
    assert (version["origin"], version["actor"]) == ("update", str(ana.id))
    assert "presentations" in str(await read(ana))
    assert (await read(ben))["version"] == 0


async def test_prompts_are_for_admins_and_the_service(
    ana: Person, admin: Person, anonymous: httpx.AsyncClient
) -> None:
    anonymous.headers["Authorization"] = f"Bearer {SERVICE_KEY}"
    text = {"prompt_text": "Keep it short.", "description": "Shorter."}

    added = await admin.http.post(PROMPTS, json=text)
    by_service = await anonymous.post(PROMPTS, json={"prompt_text": "Shorter still."})
    used = await admin.http.post(f"{PROMPTS}/1/use")

    assert added.status_code == 201
    assert (added.json()["version"], added.json()["created_by"]) == (2, str(admin.id))
    assert (by_service.json()["version"], by_service.json()["created_by"]) == (3, None)
    assert (used.json()["version"], used.json()["is_active"]) == (1, True)
    listed = (await anonymous.get(PROMPTS)).json()["data"]
    assert [(each["version"], each["is_active"]) for each in listed] == [(3, False), (2, False), (1, True)]
    assert_problem(await admin.http.post(f"{PROMPTS}/9/use"), 404, "unknown_prompt")
    assert (await admin.http.get(PROMPTS)).json()["data"] == listed
    for method, path, body in (("GET", "", None), ("POST", "", text), ("POST", "/1/use", None)):
        assert_problem(await ana.http.request(method, f"{PROMPTS}{path}", json=body), 403)


async def test_the_service_and_admins_reach_everybody_and_others_themselves(
    ana: Person, ben: Person, admin: Person, anonymous: httpx.AsyncClient
) -> None:
    await record(ana, note("mine"))
    anonymous.headers["Authorization"] = f"Bearer {SERVICE_KEY}"
    by_admin = await admin.http.put(of(ana), json={**await read(ana), "summary": "by an admin"})
    assert by_admin.json()["last_updated_by"] == "admin"
    [version] = (await read(ana, "/history"))["data"]
    assert version["actor"] == str(admin.id)
    assert (await anonymous.get(of(ana))).json() == by_admin.json()
    assert_problem(await anonymous.get(f"/api/users/{uuid4()}/profile"), 404)
    assert_problem(await ben.http.get(of(ana)), 404)
