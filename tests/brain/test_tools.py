"""The tools of agents: how they are described, what they do, and what they may not."""

from __future__ import annotations

import json
from typing import Any, get_args
from uuid import uuid4

import pytest
from openai.types.chat import ChatCompletionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from recollect.access.membership_models import NewCompanyMember
from recollect.brain.tools import Format, Toolbox, tools_for
from recollect.db.tenancy import SERVICE
from tests.brain.conftest import Knower, company_of
from tests.support.engines import ENGINES

pytestmark = pytest.mark.anyio

USER_TOOLS = ["search_user_memory", "save_user_memory"]
COMPANY_TOOLS = ["search_company_memory", "save_company_memory"]


def toolbox_of(knower: Knower, company: Knower | None = None, **more: Any) -> Toolbox:
    given = {"agent": "scribe", "company_id": company.owner.id if company else None, **more}
    user_id = knower.caller.credential
    return knower.services.toolboxes.toolbox(knower.caller, user_id, **given)  # type: ignore[arg-type]


# How they are described


@pytest.mark.parametrize("form", get_args(Format))
def test_a_schema_is_as_strict_as_the_strictest_server_wants_it(form: Format) -> None:
    for tool in tools_for(company=True):
        told = tool.definition(form)
        told = told.get("function", told)
        schema = told.get("parameters") or told["input_schema"]
        assert (schema["type"], schema["additionalProperties"]) == ("object", False)
        assert schema["required"] == list(schema["properties"])
        for field in schema["properties"].values():
            assert field.keys() <= {"type", "anyOf", "description"}
            assert field["description"].endswith(".")
        assert len(told["description"]) < 1_024


def test_openai_takes_the_definitions() -> None:
    for tool in tools_for(company=True):
        chat, responses = tool.definition("openai"), tool.definition("responses")
        assert TypeAdapter(ChatCompletionToolParam).validate_python(chat) == chat
        assert TypeAdapter(FunctionToolParam).validate_python(responses) == responses


async def test_without_a_company_its_tools_are_neither_offered_nor_there(ana: Knower, acme: Knower) -> None:
    alone, together = toolbox_of(ana), toolbox_of(ana, acme)

    assert [tool["name"] for tool in alone.definitions("anthropic")] == USER_TOOLS
    assert [tool["name"] for tool in together.definitions("anthropic")] == USER_TOOLS + COMPANY_TOOLS
    assert await alone.save_company_memory("motto", "Onward.") == {
        "error": "There is no such tool; there are: search_user_memory, save_user_memory."
    }


# What they do


@pytest.mark.parametrize("mode", ENGINES)
async def test_what_an_agent_saves_is_found_and_marked_as_its_own(
    ana: Knower, acme: Knower, mode: str
) -> None:
    tools = toolbox_of(ana, acme)

    saved = await tools.save_user_memory("user_pet", "Has a dog named Rex.", "user_profile")
    of_company = await tools.save_company_memory("company_motto", "Onward.")

    assert saved == {"saved": True, "slug": "user_pet", "change": "created"}
    assert of_company == {"saved": True, "slug": "company_motto", "change": "created"}
    [found] = (await tools.search_user_memory("dog"))["memories"]
    assert (found["slug"], found["content"]) == ("user_pet", "Has a dog named Rex.")
    [found] = (await tools.search_company_memory("onward", limit=1))["memories"]
    assert found["slug"] == "company_motto"
    fact = await ana.get("user_pet")
    assert fact.extra_metadata == {"category": "user_profile", "written_by": "agent", "agent": "scribe"}
    assert [change.reason for change in await ana.history("user_pet")] == ["said by agent scribe"]
    assert (await acme.get("company_motto")).extra_metadata == {"written_by": "agent", "agent": "scribe"}


async def test_an_update_keeps_what_else_stood_beside_the_fact(ana: Knower) -> None:
    beside = {"source": "form", "agent": "earlier", "approved_by": "somebody"}
    await ana.save({"slug": "city", "content": "Lima", "category": "home", "extra_metadata": beside})

    saved = await toolbox_of(ana).save_user_memory("city", "Cusco")

    assert saved["change"] == "updated"
    assert (await ana.get("city")).extra_metadata == {
        "category": "home",
        "source": "form",
        "written_by": "agent",
        "agent": "scribe",
    }


async def test_what_is_known_already_is_not_made_the_agents(ana: Knower) -> None:
    await ana.save({"slug": "city", "content": "Lima", "category": "home"})
    tools = toolbox_of(ana)

    assert (await tools.save_user_memory("city", " Lima "))["change"] == "unchanged"
    assert (await tools.save_user_memory("city", "Lima", "home"))["change"] == "unchanged"
    assert "agent" not in (await ana.get("city")).extra_metadata
    assert (await tools.save_user_memory("city", "Lima", "birthplace"))["change"] == "updated"


async def test_arguments_come_as_an_object_or_as_json_text(ana: Knower) -> None:
    tools = toolbox_of(ana)

    await tools.call("save_user_memory", json.dumps({"slug": "city", "content": "Lima", "category": None}))
    found = await tools.call("search_user_memory", {"query": "Lima", "limit": 3, "category": None})

    assert [fact["slug"] for fact in found["memories"]] == ["city"]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("save_user_memory", {"slug": "My City", "content": "x"}, "slug: a-z, 0-9 and _ alone"),
        ("save_user_memory", {"slug": "city", "content": "  "}, "content: "),
        ("save_user_memory", {"slug": "city", "content": "a\x00b"}, "content: "),
        ("save_user_memory", {"slug": "city"}, "content: Field required"),
        ("save_user_memory", {"slug": "c", "content": "x", "user_id": "y"}, "user_id: Extra inputs"),
        ("search_user_memory", {"query": " "}, "query: "),
        ("search_user_memory", {"query": "x", "limit": 1_000}, "limit: "),
        ("search_user_memory", {"query": "x", "limit": "5"}, "limit: "),
        ("search_user_memory", '{"query": "x"', "What the tool was called with is not valid JSON"),
        ("search_user_memory", "[]", "arguments: "),
        ("forget_everything", {}, "There is no such tool; there are: search_user_memory"),
    ],
)
async def test_a_wrong_call_is_answered_with_what_is_wrong(
    ana: Knower, name: str, arguments: Any, told: str
) -> None:
    answer = await toolbox_of(ana).call(name, arguments)

    assert answer.keys() == {"error"}
    assert answer["error"].startswith(told)
    assert await ana.known() == {}


# What they may not do


async def test_a_toolbox_reaches_nobody_whom_its_caller_does_not(ana: Knower, ben: Knower) -> None:
    of_ben = await company_of(ben, "Ben's", None)
    await ben.save(secret="Ben's own secret")
    await of_ben.save(secret="The company's secret")
    box = ana.services.toolboxes.toolbox
    as_ben = box(ana.caller, ben.owner.id, agent="scribe")
    in_his_company = box(ana.caller, ana.owner.id, company_id=of_ben.owner.id, agent="scribe")

    assert await as_ben.search_user_memory("secret") == {"error": "There is no such user, or it is not you."}
    assert (await as_ben.save_user_memory("secret", "x")).keys() == {"error"}
    assert await in_his_company.search_company_memory("secret") == {"error": "There is no such company."}
    assert await in_his_company.save_company_memory("secret", "x") == {"error": "There is no such company."}
    assert await ben.known() == {"secret": "Ben's own secret"}
    assert await of_ben.known() == {"secret": "The company's secret"}


async def test_the_services_toolbox_does_what_its_user_may_and_no_more(ana: Knower, ben: Knower) -> None:
    of_ben = await company_of(ben, "Ben's", None)
    box = ana.services.toolboxes.toolbox
    tools = box(SERVICE, ana.owner.id, company_id=of_ben.owner.id, agent="scribe")

    assert (await tools.save_user_memory("city", "Lima"))["saved"]
    assert await tools.save_company_memory("motto", "x") == {"error": "There is no such company."}
    nobody = box(SERVICE, uuid4(), agent="scribe")
    assert (await nobody.search_user_memory("city")).keys() == {"error"}


async def test_a_member_who_has_left_takes_no_tool_along(ana: Knower, ben: Knower, acme: Knower) -> None:
    members = ana.services.membership.company_members
    new = NewCompanyMember(user_id=ben.owner.id, role="member")
    await ana.do(lambda tx: members.add(tx, acme.owner.id, new))
    tools = toolbox_of(ben, acme)
    assert (await tools.save_company_memory("motto", "Onward."))["saved"]

    await ana.do(lambda tx: members.remove(tx, acme.owner.id, ben.owner.id))

    assert await tools.search_company_memory("motto") == {"error": "There is no such company."}
