"""What agents propose: it waits, is compared with what is known, and stands or falls by a person's word."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from recollect.access.membership_models import NewCompanyMember
from recollect.access.roles import RoleTooLow
from recollect.brain.models import Owner, Saved, UnknownOwner
from recollect.brain.proposals import (
    AlreadyDecided,
    NotApproved,
    Proposal,
    Proposals,
    ProposedChange,
    UnknownProposal,
)
from recollect.brain.store import queries
from recollect.brain.tools import Toolbox
from recollect.errors import NotAllowed
from recollect.events.models import Event
from recollect.settings import Settings
from tests.brain.conftest import Knower
from tests.conftest import make_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(home: Path, database_url: str) -> Settings:
    # With one connection: whoever holds one while asking for another does not get far.
    return make_settings(
        home, database_url, brain_agent_writes="propose", embedding="static", database_pool_size=1
    )


@pytest.fixture
async def member(ana: Knower, ben: Knower, acme: Knower) -> Knower:
    """Ben, who is a plain member of Ana's company."""
    new = NewCompanyMember(user_id=ben.owner.id, role="member")
    await ana.do(lambda tx: ana.services.membership.company_members.add(tx, acme.owner.id, new))
    return ben.about(acme.owner)


def tools_of(knower: Knower, agent: str = "scribe") -> Toolbox:
    company = knower.owner.id if knower.owner.kind == "company" else None
    user_id = knower.caller.credential
    assert isinstance(user_id, UUID)
    return knower.services.toolboxes.toolbox(knower.caller, user_id, company_id=company, agent=agent)


async def proposed(knower: Knower, slug: str, content: str, agent: str = "scribe") -> UUID:
    tools = tools_of(knower, agent)
    save = tools.save_company_memory if knower.owner.kind == "company" else tools.save_user_memory
    answer = await save(slug, content)
    assert answer["proposed"], answer
    return UUID(answer["proposal_id"])


async def listed(knower: Knower, *owners: Owner, **more: Any) -> list[Proposal]:
    return await knower.do(lambda tx: knower.services.proposals.list(tx, *owners, **more))


async def get(knower: Knower, proposal: UUID) -> ProposedChange:
    return await knower.do(lambda tx: knower.services.proposals.get(tx, proposal))


async def approve(knower: Knower, proposal: UUID, **more: Any) -> Proposal:
    return await knower.do(lambda tx: knower.services.proposals.approve(tx, proposal, **more))


async def reject(knower: Knower, proposal: UUID, **more: Any) -> Proposal:
    return await knower.do(lambda tx: knower.services.proposals.reject(tx, proposal, **more))


async def events_of(knower: Knower, kind: str) -> list[Event]:
    await knower.services.relay.relay()
    events = await knower.do(knower.services.events.latest)
    return [event for event in events if event.type == kind]


async def test_what_an_agent_says_waits_and_is_not_known(ana: Knower) -> None:
    answer = await tools_of(ana).save_user_memory("city", "Lima", "home")

    assert (answer["proposed"], answer["slug"]) == (True, "city")
    assert await ana.known() == {}
    [waiting] = await listed(ana)
    assert (waiting.slug, waiting.content, waiting.category) == ("city", "Lima", "home")
    assert (waiting.agent, waiting.state, waiting.proposed_by) == ("scribe", "pending", ana.owner.id)
    assert (waiting.user_id, waiting.company_id) == (ana.owner.id, None)


async def test_what_is_known_already_is_not_proposed(ana: Knower) -> None:
    await ana.save(city="Lima")

    assert (await tools_of(ana).save_user_memory("city", "Lima"))["change"] == "unchanged"
    assert await listed(ana) == []


async def test_a_newer_proposal_takes_the_place_of_the_one_that_waits(ana: Knower) -> None:
    older = await proposed(ana, "city", "Lima")
    same = await proposed(ana, "city", "Lima")
    newer = await proposed(ana, "city", "Cusco", agent="other")

    assert same == older
    [waiting] = await listed(ana)
    assert (waiting.id, waiting.content, waiting.agent) == (newer, "Cusco", "other")
    # Who looks at the older one has not seen what the newer one says.
    with pytest.raises(UnknownProposal):
        await approve(ana, older)
    assert await ana.known() == {}


async def test_many_at_once_leave_one_that_waits(ana: Knower) -> None:
    await asyncio.gather(*(proposed(ana, "city", f"City {number % 2}") for number in range(6)))

    assert len(await listed(ana)) == 1


async def test_a_proposal_is_shown_beside_what_is_known_now(ana: Knower) -> None:
    await ana.save({"slug": "city", "content": "Lives in Lima", "category": "home"})
    proposal = await proposed(ana, "city", "Lives in Cusco")

    shown = await get(ana, proposal)

    assert (shown.known, shown.known_metadata, shown.may_decide) == (
        "Lives in Lima",
        {"category": "home"},
        True,
    )
    assert [(part.kind, part.text) for part in shown.diff] == [
        ("same", "Lives in "),
        ("gone", "Lima"),
        ("new", "Cusco"),
    ]


async def test_what_is_approved_is_known_with_who_said_it_and_who_approved(ana: Knower) -> None:
    beside = {"source": "form"}
    await ana.save({"slug": "city", "content": "Lima", "category": "home", "extra_metadata": beside})

    decided = await approve(ana, await proposed(ana, "city", "Cusco"), reason="She moved.")

    assert (decided.state, decided.decided_by, decided.reason) == ("approved", ana.owner.id, "She moved.")
    assert decided.decided_at is not None
    fact = await ana.get("city")
    assert (fact.content, fact.extra_metadata) == (
        "Cusco",
        {
            "category": "home",
            "source": "form",
            "written_by": "agent",
            "agent": "scribe",
            "approved_by": str(ana.owner.id),
        },
    )
    assert (await ana.history("city"))[0].reason == "She moved."
    assert await ana.is_in_step()


async def test_what_is_rejected_leaves_what_is_known(ana: Knower) -> None:
    await ana.save(city="Lima")

    decided = await reject(ana, await proposed(ana, "city", "Cusco"), reason="No.")

    assert (decided.state, decided.decided_by, decided.reason) == ("rejected", ana.owner.id, "No.")
    assert await ana.known() == {"city": "Lima"}
    # It may be proposed again.
    assert await proposed(ana, "city", "Cusco") != decided.id


async def test_it_is_decided_once(ana: Knower) -> None:
    proposal = await proposed(ana, "city", "Cusco")
    await reject(ana, proposal)

    for decide in (approve, reject):
        with pytest.raises(AlreadyDecided):
            await decide(ana, proposal)
    assert await ana.known() == {}


async def test_what_cannot_be_saved_still_waits(ana: Knower) -> None:
    proposal = await proposed(ana, "city", "Cusco")

    class Broken:
        async def save(self, *_: object, **__: object) -> Saved:
            return Saved(success=False, failed_count=1, errors=["Error with user memory city: away."])

    with pytest.raises(NotApproved, match="away"):
        await ana.do(lambda tx: Proposals(Broken()).approve(tx, proposal))  # type: ignore[arg-type]

    assert [waiting.state for waiting in await listed(ana)] == ["pending"]
    await approve(ana, proposal)
    assert await ana.known() == {"city": "Cusco"}


async def test_a_company_decides_by_its_owners_and_admins(ana: Knower, acme: Knower, member: Knower) -> None:
    proposal = await proposed(member, "motto", "Onward.")

    for decide in (approve, reject):
        with pytest.raises(RoleTooLow):
            await decide(member, proposal)
    assert await acme.known() == {}
    shown = await get(member, proposal)
    assert (shown.may_decide, shown.state) == (False, "pending")

    assert (await approve(acme, proposal)).decided_by == ana.owner.id
    assert await acme.known() == {"motto": "Onward."}


async def test_row_security_holds_a_plain_member_to_it(member: Knower) -> None:
    proposal = await proposed(member, "motto", "Onward.")

    wanted = {"proposal_id": proposal, "state": "approved", "reason": None}
    with pytest.raises(NotAllowed):
        await member.do(lambda tx: tx.maybe(queries.decide, wanted))
    assert [waiting.state for waiting in await listed(member)] == ["pending"]


async def test_to_others_there_is_no_proposal(ana: Knower, acme: Knower, ben: Knower) -> None:
    for proposal in (await proposed(ana, "city", "Lima"), await proposed(acme, "motto", "Onward.")):
        with pytest.raises(UnknownProposal):
            await get(ben, proposal)
        for decide in (approve, reject):
            with pytest.raises(UnknownProposal):
                await decide(ben, proposal)
    assert await listed(ben) == []
    for owner in (ana.owner, acme.owner, Owner("user", uuid4())):
        with pytest.raises(UnknownOwner):
            await listed(ben, owner)


async def test_the_service_decides_nothing(ana: Knower) -> None:
    proposal = await proposed(ana, "city", "Lima")

    with pytest.raises(NotAllowed):
        await ana.as_service().do(lambda tx: ana.services.proposals.approve(tx, proposal))
    assert await ana.known() == {}


async def test_they_are_listed_by_owner_and_state_in_pages(ana: Knower, acme: Knower) -> None:
    first = await proposed(ana, "city", "Lima")
    second = await proposed(acme, "motto", "Onward.")
    third = await proposed(ana, "pet", "A dog")
    await reject(ana, first)

    def ids(found: list[Proposal]) -> list[UUID]:
        return [proposal.id for proposal in found]

    everything = await listed(ana)
    assert ids(everything) == [third, second, first]
    assert ids(await listed(ana, ana.owner)) == [third, first]
    assert ids(await listed(ana, acme.owner)) == [second]
    assert ids(await listed(ana, ana.owner, acme.owner)) == [third, second, first]
    assert ids(await listed(ana, state="rejected")) == [first]
    after = (everything[0].created_at, everything[0].id)
    assert ids(await listed(ana, before=after, limit=1)) == [second]


async def test_people_are_told_of_what_was_proposed_and_not_what_it_says(
    ana: Knower, acme: Knower, member: Knower, ben: Knower
) -> None:
    proposal = await proposed(member, "motto", "Onward.")
    await proposed(member, "motto", "Onward.")

    [event] = await events_of(acme, "brain.proposed")
    assert event.subject == f"brain/{acme.owner.id}/motto"
    assert event.data == {"slug": "motto", "proposalId": str(proposal), "agent": "scribe"}
    assert (event.company_id, event.actor) == (acme.owner.id, ben.owner.id)

    newer = await proposed(member, "motto", "Upward.")
    await approve(acme, newer)
    told = await events_of(acme, "brain.proposed")
    assert [event.data["proposalId"] for event in told] == [str(newer), str(proposal)]
    assert [event.data["slug"] for event in await events_of(acme, "brain.changed")] == ["motto"]
