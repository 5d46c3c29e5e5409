"""Agents over REST: their tools, what they propose and are told, and forms that become facts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from openai import AsyncOpenAI

from recollect.bootstrap import Services
from recollect.brain.context import CLOSE, OPEN
from recollect.settings import Settings
from tests.api.raw import assert_problem
from tests.conftest import MakePerson, Person, make_settings
from tests.support.model_server import KEY, ModelServer, Says, Sends

pytestmark = pytest.mark.anyio

TOOLS = "/api/brain/tools"
PROPOSALS = "/api/brain/proposals"
CONTEXT = "/api/brain/context"
DOMAINS = "/api/brain/domains"
SERVICE_KEY = "the service key of the tests, long enough"


@pytest.fixture
def writes() -> str:
    return "save"


@pytest.fixture
def settings(home: Path, database_url: str, writes: str) -> Settings:
    # With one connection: whoever holds one while asking for another does not get far.
    return make_settings(
        home,
        database_url,
        brain_agent_writes=writes,
        embedding="static",
        database_pool_size=1,
        service_key=SERVICE_KEY,
    )


proposing = pytest.mark.parametrize("writes", ["propose"])


@pytest.fixture
async def acme(ana: Person) -> str:
    company: str = (await ana.http.post("/api/companies", json={"name": "Acme"})).json()["id"]
    return company


async def run(who: Person, tool: str, arguments: Any, **more: Any) -> httpx.Response:
    body = {"arguments": arguments, "agent": "scribe", **more}
    return await who.http.post(f"{TOOLS}/{tool}", json=body)


async def save(who: Person, slug: str, content: str, company: str | None = None) -> dict[str, Any]:
    tool = "save_user_memory" if company is None else "save_company_memory"
    answer = await run(who, tool, {"slug": slug, "content": content}, company_id=company)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


async def found(who: Person, query: str, **more: Any) -> list[str]:
    answer = await run(who, "search_user_memory", {"query": query}, **more)
    return [fact["content"] for fact in answer.json()["memories"]]


# Tools


@pytest.mark.parametrize("form", ["openai", "responses", "anthropic"])
async def test_the_tools_are_described_as_each_api_takes_them(ana: Person, acme: str, form: str) -> None:
    alone = (await ana.http.get(TOOLS, params={"format": form})).json()["data"]
    together = (await ana.http.get(TOOLS, params={"format": form, "company_id": acme})).json()["data"]

    def name(tool: dict[str, Any]) -> str:
        said: str = tool.get("function", tool)["name"]
        return said

    assert list(map(name, alone)) == ["search_user_memory", "save_user_memory"]
    assert list(map(name, together))[2:] == ["search_company_memory", "save_company_memory"]


async def test_a_tool_runs_as_the_caller_and_answers_the_model(ana: Person, acme: str) -> None:
    assert await save(ana, "city", "Lima") == {"saved": True, "slug": "city", "change": "created"}
    assert (await save(ana, "motto", "Onward.", acme))["saved"]

    assert await found(ana, "Lima") == ["Lima"]
    as_text = await run(ana, "search_company_memory", '{"query": "onward"}', company_id=acme)
    assert [fact["slug"] for fact in as_text.json()["memories"]] == ["motto"]
    wrong = await run(ana, "save_user_memory", {"slug": "My City", "content": "x"})
    assert (wrong.status_code, wrong.json().keys()) == (200, {"error"})
    assert_problem(await run(ana, "forget_everything", {}), 404, "unknown_tool")
    assert_problem(await run(ana, "save_company_memory", {}), 404, "unknown_tool")
    nameless = await ana.http.post(f"{TOOLS}/search_user_memory", json={"arguments": {}})
    assert_problem(nameless, 422, "invalid_input")


async def test_nobody_runs_a_tool_about_others_but_an_admin_in_their_place(
    ana: Person, ben: Person, admin: Person, acme: str
) -> None:
    await save(ana, "city", "Lima")

    for about in ({"user_id": str(ana.id)}, {"company_id": acme}):
        kind = "company" if "company_id" in about else "user"
        for tool, given in (("search", {"query": "x"}), ("save", {"slug": "city", "content": "x"})):
            assert_problem(await run(ben, f"{tool}_{kind}_memory", given, **about), 404)
    assert await found(ben, "Lima") == []
    assert await found(admin, "Lima", user_id=str(ana.id)) == ["Lima"]
    assert await found(ana, "Lima", user_id=str(ana.id)) == ["Lima"]


async def test_the_service_key_does_what_the_user_named_may(
    ana: Person, ben: Person, acme: str, anonymous: httpx.AsyncClient
) -> None:
    anonymous.headers["Authorization"] = f"Bearer {SERVICE_KEY}"
    service = replace(ana, http=anonymous)
    about = {"user_id": str(ana.id), "company_id": acme}

    told = {"slug": "motto", "content": "Onward."}
    assert (await run(service, "save_company_memory", told, **about)).json()["saved"]
    form = {"fields": {"position": "Baker"}, "user_id": str(ana.id), "language": "en"}
    assert (await anonymous.post(f"{DOMAINS}/onboarding", json=form)).status_code == 200
    known = (await anonymous.get(CONTEXT, params=about)).json()
    assert (known["user"], known["company"]) == (["user_position"], ["motto"])

    nobody = {"user_id": str(uuid4())}
    of_ben = {**about, "user_id": str(ben.id)}
    for who in (nobody, of_ben):
        assert_problem(await run(service, "save_company_memory", told, **{**about, **who}), 404)
        assert_problem(await anonymous.get(CONTEXT, params={**about, **who}), 404)
    assert_problem(await run(service, "search_user_memory", {"query": "x"}), 403, "not_allowed")
    assert_problem(await anonymous.get(CONTEXT), 403, "not_allowed")
    assert_problem(await anonymous.get(PROPOSALS), 403, "not_allowed")


async def test_a_key_that_may_only_read_searches_and_saves_nothing(person: MakePerson) -> None:
    reader = await person("reader@example.com", scopes=("memory:read",))

    assert await found(reader, "Lima") == []
    refused = await run(reader, "save_user_memory", {"slug": "city", "content": "Lima"})
    assert_problem(refused, 403, "not_allowed")
    assert await found(reader, "Lima") == []


# Proposals


@proposing
async def test_a_proposal_is_listed_compared_and_approved(ana: Person, writes: str) -> None:
    said = await save(ana, "city", "Lives in Lima")
    assert said["proposed"]
    one = f"{PROPOSALS}/{said['proposal_id']}"

    [listed] = (await ana.http.get(PROPOSALS, params={"state": "pending"})).json()["data"]
    assert (listed["id"], listed["slug"], listed["agent"]) == (said["proposal_id"], "city", "scribe")
    shown = (await ana.http.get(one)).json()
    assert (shown["known"], shown["may_decide"]) == (None, True)
    assert shown["diff"] == [{"kind": "new", "text": "Lives in Lima"}]
    approved = await ana.http.post(f"{one}/approve")
    assert (approved.status_code, approved.json()["state"]) == (200, "approved")
    assert await found(ana, "Lima") == ["Lives in Lima"]
    assert_problem(await ana.http.post(f"{one}/reject", json={"reason": "No."}), 409, "already_decided")


@proposing
async def test_a_plain_member_sees_what_is_proposed_and_decides_nothing(
    ana: Person, ben: Person, acme: str, writes: str
) -> None:
    member = {"user_id": str(ben.id), "role": "member"}
    assert (await ana.http.post(f"/api/companies/{acme}/members", json=member)).status_code == 201
    said = await save(ben, "motto", "Onward.", acme)
    one = f"{PROPOSALS}/{said['proposal_id']}"

    assert (await ben.http.get(one)).json()["may_decide"] is False
    for verb in ("approve", "reject"):
        assert_problem(await ben.http.post(f"{one}/{verb}"), 403, "role_too_low")
    rejected = await ana.http.post(f"{one}/reject", json={"reason": "Not ours."})
    assert (rejected.json()["state"], rejected.json()["reason"]) == ("rejected", "Not ours.")


@proposing
async def test_proposals_come_in_pages_by_owner_to_those_concerned(
    ana: Person, ben: Person, admin: Person, acme: str, writes: str
) -> None:
    for number in range(3):
        await save(ana, f"fact_{number}", "x")
    await save(ana, "motto", "Onward.", acme)

    async def slugs(who: Person, **query: Any) -> list[str]:
        answer = await who.http.get(PROPOSALS, params=query)
        return [each["slug"] for each in answer.json()["data"]]

    assert await slugs(ana) == ["motto", "fact_2", "fact_1", "fact_0"]
    assert await slugs(ana, company_id=acme) == ["motto"]
    for who in (ana, admin):
        assert await slugs(who, user_id=str(ana.id)) == ["fact_2", "fact_1", "fact_0"]
    first = (await ana.http.get(PROPOSALS, params={"limit": 3})).json()["nextCursor"]
    assert await slugs(ana, cursor=first) == ["fact_0"]
    assert_problem(await ben.http.get(PROPOSALS, params={"cursor": first}), 422, "invalid_cursor")
    assert await slugs(ben) == []
    for nowhere in ({"user_id": str(ana.id)}, {"company_id": acme}, {"company_id": str(uuid4())}):
        assert_problem(await ben.http.get(PROPOSALS, params=nowhere), 404)


# Context


async def test_a_context_comes_as_json_or_as_instructions(ana: Person, admin: Person, acme: str) -> None:
    await save(ana, "city", "Lima")
    await save(ana, "motto", "Onward.", acme)
    query = {"company_id": acme, "query": "city", "budget_tokens": "300"}

    made = (await ana.http.get(CONTEXT, params=query)).json()
    told = await ana.http.get(CONTEXT, params={**query, "format": "instructions"})

    assert (made["user"], made["company"], made["left_out"], made["budget"]) == (["city"], ["motto"], 0, 300)
    assert told.headers["content-type"] == "text/plain; charset=utf-8"
    assert told.text.endswith(f"{OPEN}\n{made['text']}\n{CLOSE}")
    by_admin = await admin.http.get(CONTEXT, params={"user_id": str(ana.id)})
    assert by_admin.json()["user"] == ["city"]


async def test_a_context_is_for_those_concerned(ana: Person, ben: Person, acme: str) -> None:
    for nowhere in ({"user_id": str(ana.id)}, {"company_id": acme}):
        assert_problem(await ben.http.get(CONTEXT, params=nowhere), 404)
    for wrong in ({"budget_tokens": 0}, {"budget_tokens": "1_0"}, {"query": ""}, {"format": "xml"}):
        assert_problem(await ana.http.get(CONTEXT, params=wrong), 422, "invalid_input")


# Forms


async def test_a_form_says_what_it_takes(ana: Person) -> None:
    listed = (await ana.http.get(DOMAINS)).json()["data"]

    assert {"onboarding", "settings"} <= {domain["name"] for domain in listed}
    [entry] = [
        entry
        for domain in listed
        if domain["name"] == "company"
        for entry in domain["entries"]
        if entry["slug"] == "company_tax_regime"
    ]
    assert (entry["owner"], bool(entry["fields"])) == ("company", True)


async def test_a_form_becomes_facts_about_the_user_and_the_company(ana: Person, acme: str) -> None:
    listed = (await ana.http.get(DOMAINS)).json()["data"]
    [onboarding] = [domain for domain in listed if domain["name"] == "onboarding"]
    kinds = {entry["owner"] for entry in onboarding["entries"]}
    fields = {name: "Something" for entry in onboarding["entries"] for name in entry["fields"]}
    form = {"fields": fields, "company_id": acme, "language": "en", "reason": "The form."}
    address = f"{DOMAINS}/onboarding"

    planned = (await ana.http.post(address, json={**form, "dry_run": True})).json()["data"]
    assert {each["about"] for each in planned} == kinds
    assert all(change["change"] == "create" for each in planned for change in each["planned"])
    assert all(each.get("saved") is None for each in planned)
    assert await found(ana, "Something") == []

    filled = (await ana.http.post(address, json=form)).json()["data"]
    assert [each["saved"]["saved_count"] for each in filled] == [len(each["planned"]) for each in planned]
    again = (await ana.http.post(address, json={**form, "dry_run": True})).json()["data"]
    assert {change["change"] for each in again for change in each["planned"]} == {"unchanged"}


async def test_a_form_that_cannot_be_saved_whole_is_not_saved(ana: Person, ben: Person, acme: str) -> None:
    form = {"fields": {"position": "Baker", "industry": "Bread"}}
    address = f"{DOMAINS}/onboarding"

    assert_problem(await ana.http.post(address, json=form), 422, "invalid_input")
    assert_problem(await ben.http.post(address, json={**form, "company_id": acme}), 404, "unknown_owner")
    of_user = {"fields": {"position": "Baker"}, "user_id": str(ana.id)}
    assert_problem(await ben.http.post(address, json=of_user), 404)
    wrong = {"fields": {"no_such_field": 1}}
    assert_problem(await ana.http.post(address, json=wrong), 422, "unknown_field")
    assert await found(ana, "Baker") == await found(ben, "Baker") == []
    assert_problem(await ana.http.post(f"{DOMAINS}/nothing", json=wrong), 404, "unknown_domain")


# The page on agents, as it is written


@pytest.fixture
def written() -> dict[str, Any]:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    code: dict[str, Any] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), code)  # noqa: S102 - our own page
    return code


ARGUMENTS = {"slug": "city", "content": "Lives in Lima.", "category": None}
SAID = "I will remember that."


async def test_an_openai_agent_as_documented_saves_what_it_is_told(
    ana: Person, written: dict[str, Any]
) -> None:
    function = {"name": "save_user_memory", "arguments": json.dumps(ARGUMENTS)}
    call = {"id": "call_1", "type": "function", "function": function}
    message = {"role": "assistant", "content": "One moment.", "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    calls = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    async with ModelServer().running() as server:
        server.will(Sends(json.dumps(calls).encode()), Says(SAID))
        async with AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1", max_retries=0) as openai:
            answer = await written["answer_with_openai"](openai, ana.http, "m", "I live in Lima.")

    assert answer == SAID
    assert await found(ana, "Lima") == ["Lives in Lima."]
    told = json.loads(server.asked[1].body["messages"][-1]["content"])
    assert told == {"saved": True, "slug": "city", "change": "created"}


async def test_an_anthropic_agent_as_documented_saves_what_it_is_told(
    ana: Person, written: dict[str, Any]
) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "save_user_memory", "input": ARGUMENTS}
    await save(ana, "pet", "A dog.")
    async with ModelServer().running() as server:
        server.will(Sends(json.dumps({"content": [call]}).encode()), Says(SAID))
        headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
        async with httpx.AsyncClient(base_url=server.url, headers=headers) as anthropic:
            answer = await written["answer_with_anthropic"](anthropic, ana.http, "m", "I live in Lima.")

    assert answer == SAID
    assert "Lives in Lima." in await found(ana, "Lima")
    assert '- pet: "A dog."' in server.asked[0].system
    [told] = server.asked[1].body["messages"][-1]["content"]
    assert json.loads(told["content"]) == {"saved": True, "slug": "city", "change": "created"}


async def test_a_toolbox_as_documented_works_in_the_process(
    services: Services, ana: Person, acme: str, written: dict[str, Any]
) -> None:
    definitions, memories = await written["greet"](services, ana.caller, ana.id, UUID(acme))

    assert len(definitions) == 4
    assert [fact["content"] for fact in memories] == ["Prefers Spanish."]
