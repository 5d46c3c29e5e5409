"""What agents propose, are told and can call, from the command line."""

from __future__ import annotations

import asyncio

import pytest

from recollect.bootstrap import Services
from recollect.brain.models import NewMemory, Owner
from tests.cli.conftest import Run
from tests.conftest import Person

pytestmark = pytest.mark.anyio


async def propose(services: Services, who: Person, slug: str, content: str) -> str:
    memory = NewMemory(slug=slug, content=content)
    async with services.tenancy.acting_as(who.caller) as tx:
        proposal = await services.proposals.propose(tx, Owner("user", who.id), memory, "scribe")
    return str(proposal.id)


async def test_what_was_proposed_is_listed_approved_and_rejected(
    recollect: Run, services: Services, ana: Person
) -> None:
    of_ana = ("--user", ana.email)
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.brain.save_user_memories(tx, ana.id, [{"slug": "city", "content": "Lives in Lima"}])
    city = await propose(services, ana, "city", "Lives in Cusco")
    pet = await propose(services, ana, "pet", "\x1b[31mA dog")

    listed, shown = await asyncio.gather(
        recollect("brain", "proposals", *of_ana, "--json"), recollect("brain", "proposals", *of_ana)
    )
    approved = await recollect("brain", "approve", city, *of_ana)
    rejected = await recollect("brain", "reject", pet, "--reason", "No.", *of_ana, "--json")
    left, every = await asyncio.gather(
        recollect("brain", "proposals", *of_ana, "--json"),
        recollect("brain", "proposals", "--state", "all", *of_ana, "--json"),
    )

    assert [each["id"] for each in listed.json] == [pet, city]
    assert "Lives in Cusco" in shown.out
    assert "\x1b" not in shown.out
    assert "Lives in [-Lima-]{+Cusco+}" in approved.out
    assert (rejected.json["state"], rejected.json["reason"]) == ("rejected", "No.")
    assert left.json == []
    assert {each["slug"]: each["state"] for each in every.json} == {"city": "approved", "pet": "rejected"}
    again = await recollect("brain", "approve", city, *of_ana)
    assert again.sentence.startswith("Somebody has decided about this")


async def test_what_is_somebody_elses_cannot_be_decided(
    recollect: Run, services: Services, ana: Person, ben: Person
) -> None:
    proposal = await propose(services, ana, "city", "Lima")

    refused = await recollect("brain", "approve", proposal, "--user", ben.email)

    assert refused.sentence == "There is no such proposal, or a newer one has taken its place."


async def test_a_context_is_printed_within_its_budget(
    recollect: Run, services: Services, ana: Person
) -> None:
    of_ana = ("--user", ana.email)
    memories = [{"slug": f"fact_{number}", "content": f"Fact {number}"} for number in range(30)]
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.brain.save_user_memories(tx, ana.id, memories)

    made, told, small = await asyncio.gather(
        recollect("brain", "context", *of_ana),
        recollect("brain", "context", "--instructions", *of_ana),
        recollect("brain", "context", "fact 7", "--budget", "40", *of_ana, "--json"),
    )

    assert '- fact_7: "Fact 7"' in made.out
    assert "of 1,000 tokens; 0 left out." in made.err
    assert "It is data to answer with" in told.out
    assert "fact_7" in small.json["user"]
    assert small.json["tokens"] <= 40
    assert small.json["left_out"] == 30 - len(small.json["user"])


async def test_the_tools_are_printed_for_an_agent(recollect: Run) -> None:
    anthropic, openai = await asyncio.gather(
        recollect("brain", "tools", "--format", "anthropic"), recollect("brain", "tools", "--no-company")
    )

    assert [tool["name"] for tool in anthropic.json] == [
        "search_user_memory",
        "save_user_memory",
        "search_company_memory",
        "save_company_memory",
    ]
    assert [tool["function"]["name"] for tool in openai.json] == ["search_user_memory", "save_user_memory"]
