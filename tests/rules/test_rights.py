"""Who may do what with rules, as the database itself sees to it: most of these ask it directly, past the
server, as anybody can who has a key to a Supabase project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, LiteralString
from uuid import UUID

import pytest

from recollect.access.models import WorkspaceRole
from recollect.bootstrap import Services
from recollect.db.queries import Query
from recollect.db.tenancy import NOBODY, SERVICE
from recollect.errors import NotAllowed, NotFound, Superseded
from recollect.rules import store
from recollect.rules.models import Rule, Status, UnknownRule
from tests.rules.conftest import BRANCH, TABS, TABS_AGAIN, extract, rules, runs, talk
from tests.rules.histories.conftest import Person, person
from tests.rules.test_abuse import begin, row, together

pytestmark = pytest.mark.anyio

APPROVE: LiteralString = "select public.approve_rule(%(rule)s, %(reviewer)s)"
DECISIONS: dict[LiteralString, Status] = {
    APPROVE: "approved",
    "select public.reject_rule(%(rule)s, %(reviewer)s, 'no')": "rejected",
    "select private.decide_rule(%(rule)s, 'needs_revision', %(reviewer)s, 'shorter')": "needs_revision",
}
BEGIN: LiteralString = "select private.begin_extraction(%(user)s, %(workspace)s, 'request', %(lease)s) as id"
APPROVED: LiteralString = "select id from public.get_approved_rules(%(workspace)s)"
TABLES: tuple[LiteralString, ...] = (
    "select id from public.extracted_rules",
    "select id from public.rule_approvals",
    "select id from public.rule_approval_history",
    "select id from public.extraction_runs",
)
OTHERS: tuple[WorkspaceRole, ...] = ("admin", "reviewer", "member", "viewer")

CHANGES: tuple[LiteralString, ...] = (
    "update public.extracted_rules set rule_text = 'Obey me.'",
    "update public.rule_approvals set status = 'approved'",
    "update public.extraction_runs set state = 'failed'",
    "insert into public.rule_approvals (rule_id) select id from public.extracted_rules",
    "delete from public.rule_approval_history",
    "delete from public.extracted_rules",
)


def question(sql: LiteralString) -> Query:
    return Query("question", "Asked by a test, past the server.", sql)


async def ask(who: Person, sql: LiteralString, **given: Any) -> list[Mapping[str, Any]]:
    """What the database answers somebody who asks it directly."""
    return list(await who.do(lambda tx: tx.all(question(sql), given)))


async def handed(who: Person, workspace: UUID | None) -> list[UUID]:
    return [found["id"] for found in await ask(who, APPROVED, workspace=workspace)]


async def decided(who: Person, rule: Rule) -> Rule:
    """The rule as it stands, with what was decided about it."""
    return await who.do(lambda tx: who.services.rules.get(tx, rule.id))


async def approve(who: Person, rule: Rule) -> Rule:
    return await who.do(lambda tx: who.services.rules.decide(tx, rule.id, "approved"))


@dataclass(frozen=True)
class Team:
    """A workspace with somebody in every role, and a rule that its member has asked for; and a stranger."""

    workspace: UUID
    people: dict[str, Person]
    rule: Rule

    def __getitem__(self, role: str) -> Person:
        return self.people[role]


@pytest.fixture
async def team(services: Services, ana: Person) -> Team:
    people = {role: await person(services, role) for role in (*OTHERS, "stranger")}
    workspace = await ana.workspace(*((people[role], role) for role in OTHERS))
    member = people["member"]
    await member.agrees(workspace=workspace)
    await member.add(talk("one", TABS), workspace=workspace)
    [rule] = (await extract(member, workspace)).rules
    return Team(workspace, {"owner": ana, **people}, rule)


async def leave(team: Team, role: str) -> Person:
    members = team["owner"].services.membership.workspace_members
    gone = team[role]
    await team["owner"].do(lambda tx: members.remove(tx, team.workspace, gone.id))
    return gone


# The rules that hold --------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["owner", *OTHERS])
async def test_everybody_in_a_workspace_is_handed_its_rules(team: Team, role: str) -> None:
    await approve(team["owner"], team.rule)

    assert await handed(team[role], team.workspace) == [team.rule.id]


async def test_nobody_outside_a_workspace_is_handed_its_rules_or_counts_as_using_them(team: Team) -> None:
    await approve(team["owner"], team.rule)
    gone = await leave(team, "viewer")

    for outsider in (team["stranger"], gone):
        assert await handed(outsider, team.workspace) == []
    assert (await decided(team["owner"], team.rule)).usage_count == 0


async def test_rules_of_ones_own_are_handed_to_oneself_alone(ana: Person, ben: Person) -> None:
    workspace = await together(ana, ben)
    await ana.add(talk("one", TABS))
    [rule] = (await extract(ana)).rules
    await approve(ana, rule)

    for where in (None, workspace, ana.id):
        assert await handed(ben, where) == []
    assert await handed(ana, None) == [rule.id]


async def test_who_is_not_signed_in_is_handed_nothing(team: Team, services: Services) -> None:
    await approve(team["owner"], team.rule)

    with pytest.raises(NotAllowed):
        async with services.tenancy.acting_as(NOBODY) as tx:
            await tx.all(question(APPROVED), {"workspace": team.workspace})


# Deciding -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["owner", "admin", "reviewer"])
async def test_owners_admins_and_reviewers_decide(team: Team, role: str) -> None:
    who = team[role]

    for decision, becomes in DECISIONS.items():
        await ask(who, decision, rule=team.rule.id, reviewer=who.id)

        found = await decided(team["viewer"], team.rule)
        assert (found.status, found.reviewed_by) == (becomes, who.id)


@pytest.mark.parametrize("role", ["member", "viewer", "stranger"])
async def test_nobody_else_decides_not_even_who_asked_for_the_rule(team: Team, role: str) -> None:
    who = team[role]

    for decision in DECISIONS:
        with pytest.raises(NotFound):
            await ask(who, decision, rule=team.rule.id, reviewer=who.id)

    found = await decided(team["owner"], team.rule)
    assert (found.status, found.reviewed_by) == ("pending", None)


async def test_who_has_left_decides_no_more(team: Team) -> None:
    gone = await leave(team, "reviewer")

    with pytest.raises(UnknownRule):
        await approve(gone, team.rule)

    assert (await decided(team["owner"], team.rule)).status == "pending"


async def test_who_decides_does_so_in_their_own_name(team: Team) -> None:
    for decision in DECISIONS:
        for named in (team["owner"].id, team["stranger"].id, None):
            with pytest.raises(NotAllowed, match="own name"):
                await ask(team["reviewer"], decision, rule=team.rule.id, reviewer=named)

    found = await decided(team["owner"], team.rule)
    assert (found.status, found.reviewed_by) == ("pending", None)
    assert await ask(team["owner"], "select id from public.rule_approval_history") == []


async def test_the_service_says_for_whom_it_decides(team: Team, services: Services) -> None:
    reviewer = team["reviewer"].id

    async with services.tenancy.acting_as(SERVICE) as tx:
        await tx.all(question(APPROVE), {"rule": team.rule.id, "reviewer": reviewer})

    found = await decided(team["owner"], team.rule)
    assert (found.status, found.reviewed_by) == ("approved", reviewer)


# Extractions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["owner", "reviewer", "stranger"])
async def test_nobody_ends_the_run_of_another(team: Team, role: str) -> None:
    run = await begin(team["member"], team.workspace)

    with pytest.raises(Superseded):
        await team[role].do(lambda tx: store.end(tx, run, "failed", {}, "because I say so"))

    latest = (await runs(team["member"], team.workspace))[0]
    assert (latest.id, latest.state, latest.error) == (run, "running", None)


@pytest.mark.parametrize("role", ["owner", "reviewer", "stranger"])
async def test_nobody_writes_into_the_run_of_another(team: Team, role: str) -> None:
    member = team["member"]
    [chat] = (await member.add(talk("two", BRANCH), workspace=team.workspace)).ids
    said = (await member.turns(chat))[0]
    run = await begin(member, team.workspace)

    with pytest.raises(Superseded):
        await team[role].do(lambda tx: store.note(tx, run, [row(chat, said)], [said.id]))

    assert [rule.id for rule in await rules(team["owner"], team.workspace)] == [team.rule.id]


@pytest.mark.parametrize("role", ["owner", "stranger"])
async def test_nobody_begins_a_run_for_another_nor_takes_theirs_over(team: Team, role: str) -> None:
    member = team["member"]
    run = await begin(member, team.workspace)
    wanted = {"user": member.id, "workspace": team.workspace, "lease": timedelta(0)}

    with pytest.raises(NotFound):
        await ask(team[role], BEGIN, **wanted)

    assert [each.state for each in await runs(member, team.workspace) if each.id == run] == ["running"]


@pytest.mark.parametrize("role", ["viewer", "stranger"])
async def test_who_may_not_write_in_a_workspace_begins_no_run_there(team: Team, role: str) -> None:
    histories, who = team["owner"].histories, team[role]
    await team["owner"].do(lambda tx: histories.change_settings(tx, team.workspace, "workspace"))
    before = await runs(team["owner"], team.workspace)

    with pytest.raises(NotFound):
        await begin(who, team.workspace)

    assert await runs(team["owner"], team.workspace) == before
    assert await begin(team["reviewer"], team.workspace)


async def test_a_run_touches_neither_rules_nor_turns_of_another_whatever_ids_it_is_given(
    ana: Person, ben: Person
) -> None:
    await ana.add(talk("one", TABS))
    [theirs] = (await extract(ana)).rules
    [unread] = (await ana.add(talk("two", BRANCH))).ids
    not_bens = [turn.id for turn in await ana.turns(unread)]
    await ben.agrees()
    [chat] = (await ben.add(talk("one", TABS_AGAIN))).ids
    run, said = await begin(ben), (await ben.turns(chat))[0]
    given = row(chat, said, id=str(theirs.id), contradicts=[str(theirs.id)])

    [noted] = await ben.do(lambda tx: store.note(tx, run, [given], [said.id, *not_bens]))

    assert noted.is_new
    assert [rule.contradicts for rule in await rules(ben)] == [[]]
    assert await decided(ana, theirs) == theirs
    assert len((await extract(ana)).rules) == 1, "what ana said last is still new"


# Somebody's own -------------------------------------------------------------------------------------------


@pytest.fixture
async def own(ana: Person, ben: Person) -> Rule:
    """A rule of ana's own, who shares a workspace with ben."""
    await together(ana, ben)
    await ana.add(talk("one", TABS))
    [rule] = (await extract(ana)).rules
    return rule


async def test_somebodys_own_rules_are_on_nobody_elses_list(ana: Person, ben: Person, own: Rule) -> None:
    assert [rule.id for rule in await rules(ana)] == [own.id]
    assert await rules(ben) == []
    assert await rules(ben, ana.id) == []


async def test_somebodys_own_rules_are_shown_to_nobody_else(ana: Person, ben: Person, own: Rule) -> None:
    assert (await decided(ana, own)).id == own.id
    with pytest.raises(UnknownRule):
        await decided(ben, own)


async def test_somebodys_own_rules_are_decided_by_nobody_else(ana: Person, ben: Person, own: Rule) -> None:
    for decision in DECISIONS:
        with pytest.raises(NotFound):
            await ask(ben, decision, rule=own.id, reviewer=ben.id)

    assert (await decided(ana, own)).status == "pending"


async def test_what_is_kept_about_somebodys_own_rules_is_theirs_too(
    ana: Person, ben: Person, own: Rule
) -> None:
    await approve(ana, own)

    for table in TABLES:
        assert len(await ask(ana, table)) == 1
        assert await ask(ben, table) == []


async def test_nobody_changes_directly_what_the_functions_keep(ana: Person, own: Rule) -> None:
    for change in CHANGES:
        with pytest.raises(NotAllowed):
            await ask(ana, change)
