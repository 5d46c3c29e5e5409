"""Rules over REST: extracted, listed, decided, handed out; and the prompts that models are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE
from recollect.settings import Settings
from tests.api.raw import assert_problem
from tests.conftest import Person, make_settings, until, working

pytestmark = pytest.mark.anyio

TABS = "From now on always indent with tabs."
BRANCH = "Never push to the main branch directly, always open a pull request."
SERVICE_KEY = "the service key of the tests, long enough"


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    # With one connection: whoever holds one while asking for another does not get far.
    return make_settings(home, database_url, database_pool_size=1, service_key=SERVICE_KEY)


async def add(who: Person, session: str, *said: str, **more: Any) -> str:
    """A chat in which somebody who has agreed says these things."""
    await who.http.put("/api/chats/consent", json={"granted": True, **more})
    messages = [{"role": "user", "content": text} for text in said]
    body = {"chats": [{"session": session, "messages": messages}], **more}
    [chat_id] = (await who.http.post("/api/chats", json=body)).json()["ids"]
    assert isinstance(chat_id, str)
    return chat_id


async def found_in(who: Person, *chat_ids: str) -> dict[str, Any]:
    answer = await who.http.post("/extract-rules", json={"chat_history_ids": chat_ids})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def test_rules_are_extracted_while_the_caller_waits(ana: Person) -> None:
    chats = [await add(ana, "one", TABS), await add(ana, "two", "Thanks, that is all.")]

    answer = await ana.http.post("/extract-rules", json={"chat_history_ids": chats, "user_id": str(ana.id)})

    told = answer.json()
    confidence = told["rules"][0].pop("confidence")
    assert 0 < confidence < 1
    assert told == {
        "success": True,
        "rules_count": 1,
        "rules": [
            {
                "rule_text": "Always indent with tabs.",
                "category": "code-style",
                "evidence": "User said: 'From now on always indent with tabs.'",
            }
        ],
        "chat_histories_processed": 2,
    }


async def test_chats_that_are_not_there_or_not_agreed_to_are_refused(ana: Person, ben: Person) -> None:
    chat = await add(ana, "one", TABS)
    for who, chats in ((ana, [chat, str(uuid4())]), (ben, [chat])):
        body = {"chat_history_ids": chats}
        assert_problem(await who.http.post("/extract-rules", json=body), 404, "unknown_chat")
        assert_problem(await who.http.post("/api/rules/extract", json=body), 404, "unknown_chat")
    named = {"chat_history_ids": [chat], "user_id": str(ana.id)}
    assert_problem(await ben.http.post("/extract-rules", json=named), 404)
    await ana.http.put("/api/chats/consent", json={"granted": False})
    refused = await ana.http.post("/extract-rules", json={"chat_history_ids": [chat]})
    assert_problem(refused, 403, "not_allowed")
    assert (await ana.http.get("/api/rules")).json()["data"] == []


async def test_an_admin_and_the_service_extract_for_a_user(ana: Person, admin: Person) -> None:
    chat = await add(ana, "one", TABS)
    body = {"chat_history_ids": [chat], "user_id": str(ana.id)}

    by_admin = await admin.http.post("/extract-rules", json=body)
    as_service = {"Authorization": f"Bearer {SERVICE_KEY}"}
    by_service = await admin.http.post("/extract-rules", json=body, headers=as_service)
    of_nobody = await admin.http.post("/extract-rules", json={"chat_history_ids": [chat]}, headers=as_service)

    assert by_admin.json()["rules_count"] == by_service.json()["rules_count"] == 1
    assert_problem(of_nobody, 403)
    [rule] = (await ana.http.get("/api/rules")).json()["data"]
    assert rule["extracted_by"] == str(ana.id)
    assert (await admin.http.get("/api/rules")).json()["data"] == []


async def test_an_extraction_in_the_background_is_a_job_that_tells_how_far_it_is(
    services: Services, ana: Person
) -> None:
    await add(ana, "one", TABS)

    queued = await ana.http.post("/api/rules/extract", json={})
    assert queued.status_code == 202
    async with working(services):

        async def ended() -> dict[str, Any] | None:
            job: dict[str, Any] = (await ana.http.get(f"/api/jobs/{queued.json()['id']}")).json()
            return job if job["state"] in {"succeeded", "failed"} else None

        job = await until(ended)

    assert (job["state"], job["result"]["proposed"], job["done"]) == ("succeeded", 1, job["total"])
    [run] = (await ana.http.get("/api/rules/runs")).json()["data"]
    assert (run["id"], run["state"], run["turns"]) == (job["result"]["run"], "done", 1)


async def test_every_night_what_is_new_is_read_for_those_who_have_agreed(
    services: Services, ana: Person, ben: Person
) -> None:
    await add(ana, "one", TABS)
    await add(ben, "one", TABS)
    await ben.http.put("/api/chats/consent", json={"granted": False})
    place = await ana.http.post("/api/workspaces", json={"name": "Shop"})
    await add(ana, "two", BRANCH, workspace_id=place.json()["id"])
    for task, workspace in (("rules.extract_all", place.json()["id"]), ("rules.extract_personal", None)):
        async with services.tenancy.acting_as(SERVICE) as tx:
            await services.jobs.enqueue(tx, task, workspace_id=workspace and UUID(workspace))
    async with working(services):

        async def runs() -> list[Any] | None:
            own = (await ana.http.get("/api/rules/runs")).json()["data"]
            there = await ana.http.get("/api/rules/runs", params={"workspace_id": place.json()["id"]})
            found = [run for run in [*own, *there.json()["data"]] if run["state"] == "done"]
            return found if len(found) == 2 else None

        found = await until(runs)

    assert [(run["origin"], run["proposed"]) for run in found] == [("schedule", 1)] * 2
    assert (await ben.http.get("/api/rules/runs")).json()["data"] == []


async def test_rules_are_listed_in_pages_and_by_what_is_asked_for(ana: Person, ben: Person) -> None:
    await found_in(ana, await add(ana, "one", TABS, BRANCH))

    first = (await ana.http.get("/api/rules", params={"limit": 1})).json()
    second = (await ana.http.get("/api/rules", params={"limit": 1, "cursor": first["nextCursor"]})).json()

    assert {first["data"][0]["category"], second["data"][0]["category"]} == {"code-style", "git-workflow"}
    assert "nextCursor" not in second
    only = await ana.http.get("/api/rules", params={"category": "git-workflow", "status": "pending"})
    assert [rule["category"] for rule in only.json()["data"]] == ["git-workflow"]
    assert (await ana.http.get("/api/rules", params={"min_confidence": 1})).json()["data"] == []
    assert_problem(await ana.http.get("/api/rules", params={"category": "nonsense"}), 422)
    assert_problem(await ben.http.get("/api/rules", params={"cursor": first["nextCursor"]}), 422)
    assert_problem(await ana.http.get("/api/rules", params={"workspace_id": str(uuid4())}), 404)


async def test_a_decision_is_made_by_those_who_may_and_takes_effect(ana: Person, ben: Person) -> None:
    place = (await ana.http.post("/api/workspaces", json={"name": "Shop"})).json()["id"]
    member = {"email": ben.email, "role": "member"}
    assert (await ana.http.post(f"/api/workspaces/{place}/members", json=member)).status_code == 201
    await found_in(ana, await add(ana, "one", TABS, workspace_id=place))
    where = {"workspace_id": place}
    [rule] = (await ben.http.get("/api/rules", params=where)).json()["data"]
    path = f"/api/rules/{rule['id']}"

    refused = await ben.http.patch(f"{path}/status", json={"status": "approved"})
    approved = await ana.http.patch(f"{path}/status", json={"status": "approved", "reason": "Yes."})
    handed_out = await ben.http.get("/api/rules/approved", params=where)

    assert_problem(refused, 404, "unknown_rule")
    assert (approved.json()["status"], approved.json()["reviewed_by"]) == ("approved", str(ana.id))
    assert [each["id"] for each in handed_out.json()["data"]] == [rule["id"]]
    assert (await ana.http.get(path)).json()["usage_count"] == 1
    assert (await ana.http.get("/api/rules/approved")).json()["data"] == []


async def test_prompts_are_written_by_those_who_may_and_every_text_is_kept(
    ana: Person, ben: Person, admin: Person
) -> None:
    place = (await ana.http.post("/api/workspaces", json={"name": "Shop"})).json()["id"]
    await ana.http.post(f"/api/workspaces/{place}/members", json={"email": ben.email, "role": "member"})
    new = {"name": "ours", "prompt_text": "Find rules.", "workspace_id": place}

    ours = await ana.http.post("/api/rules/prompts", json=new)
    path = f"/api/rules/prompts/{ours.json()['id']}"
    changed = await ana.http.patch(path, json={"prompt_text": "Find good rules.", "is_active": False})
    versions = await ben.http.get(f"{path}/versions")
    listed = await ben.http.get("/api/rules/prompts", params={"workspace_id": place})
    [default] = (await ben.http.get("/api/rules/prompts")).json()["data"]

    assert (ours.status_code, ours.json()["created_by"]) == (201, str(ana.id))
    assert (changed.json()["version"], changed.json()["is_active"]) == (2, False)
    assert [version["prompt_text"] for version in versions.json()["data"]] == ["Find rules."]
    assert [prompt["name"] for prompt in listed.json()["data"]] == ["ours", "default"]
    assert_problem(await ben.http.patch(path, json={"prompt_text": "Mine."}), 403, "role_too_low")
    for_all = f"/api/rules/prompts/{default['id']}"
    assert_problem(await ana.http.patch(for_all, json={"prompt_text": "Mine."}), 403)
    assert (await admin.http.patch(for_all, json={"min_confidence": 0.5})).json()["version"] == 2
    without = {"name": "new", "prompt_text": "For all."}
    assert_problem(await ana.http.post("/api/rules/prompts", json=without), 403)
    assert (await admin.http.post("/api/rules/prompts", json=without)).status_code == 201


async def test_a_prompt_is_tried_on_chats_beside_the_active_one(ana: Person) -> None:
    chat = await add(ana, "one", TABS)
    [default] = (await ana.http.get("/api/rules/prompts")).json()["data"]

    body = {"chat_history_ids": [chat], "prompt_text": "Another."}
    compared = await ana.http.post(f"/api/rules/prompts/{default['id']}/try", json=body)

    tried = compared.json()
    assert [len(tried[side]["rules"]) for side in ("active", "tried")] == [1, 1]
    assert tried["tried"]["run"]["origin"] == "trial"
    assert (await ana.http.get("/api/rules")).json()["data"] == []


async def test_what_cannot_be_done_is_not_queued(ana: Person) -> None:
    refused = await ana.http.post("/api/rules/extract", json={})
    assert_problem(refused, 403, "not_allowed")
    assert "consent" in refused.json()["detail"]
    await add(ana, "one", TABS)
    unknown = await ana.http.post("/api/rules/extract", json={"prompt_id": str(uuid4())})
    assert_problem(unknown, 404, "unknown_prompt")
