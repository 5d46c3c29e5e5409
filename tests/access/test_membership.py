"""What the database promises about those who share, whatever statement a member sends it."""

from __future__ import annotations

import asyncio
from typing import LiteralString
from uuid import UUID

import psycopg
import pytest

from recollect.access.membership_models import (
    CompanyMemberChange,
    NamedProject,
    NamedWorkspace,
    NewCompany,
    NewCompanyMember,
    NewWorkspaceMember,
)
from recollect.access.models import CompanyRole, WorkspaceRole
from recollect.bootstrap import Services
from recollect.db.queries import Query
from recollect.db.tenancy import SERVICE, Caller
from recollect.errors import Conflict, InvalidInput, NotAllowed, NotFound, RecollectError
from tests.conftest import MakePerson, Person

pytestmark = pytest.mark.anyio

LEAVE: LiteralString = "delete from workspace_members where user_id = %(id)s and workspace_id = %(workspace)s"


async def run(services: Services, caller: Caller, sql: LiteralString, **parameters: object) -> int:
    """Send a statement as somebody; say how many rows it touched."""
    async with services.tenancy.acting_as(caller) as tx:
        return await tx.run(Query("statement", "of a test", sql), parameters)


async def new_workspace(services: Services, owner: Person, **others: tuple[Person, WorkspaceRole]) -> UUID:
    async with services.tenancy.acting_as(owner.caller) as tx:
        made = await services.membership.create_workspace(tx, NamedWorkspace(name="Shared"))
        for person, role in others.values():
            wanted = NewWorkspaceMember(user_id=person.id, role=role)
            await services.membership.workspace_members.add(tx, made.id, wanted)
        return made.id


async def new_company(services: Services, owner: Person, **others: tuple[Person, CompanyRole]) -> UUID:
    async with services.tenancy.acting_as(owner.caller) as tx:
        made = await services.membership.create_company(tx, NewCompany(name="Company"))
        for person, role in others.values():
            wanted = NewCompanyMember(user_id=person.id, role=role)
            await services.membership.company_members.add(tx, made.id, wanted)
        return made.id


async def count(services: Services, sql: LiteralString, **parameters: object) -> int:
    async with services.tenancy.acting_as(SERVICE) as tx:
        row = await tx.one(Query("count", "of a test", sql), parameters)
        counted: int = row["count"]
        return counted


async def test_no_update_moves_a_row_to_another_workspace_of_the_same_owner(
    services: Services, ana: Person, ben: Person
) -> None:
    here = await new_workspace(services, ana, ben=(ben, "member"))
    there = await new_workspace(services, ana)
    async with services.tenancy.acting_as(ana.caller) as tx:
        await services.membership.create_project(tx, here, NamedProject(name="Rules"))
    moves: list[LiteralString] = [
        "update projects set workspace_id = %(there)s where workspace_id = %(here)s",
        "update workspace_members set workspace_id = %(there)s where workspace_id = %(here)s",
        "update workspaces set id = gen_random_uuid() where id = %(here)s",
    ]
    for move in moves:
        with pytest.raises(NotAllowed):
            await run(services, ana.caller, move, here=here, there=there)

    assert await count(services, "select count(*) from projects where workspace_id = %(here)s", here=here)


async def test_whose_a_workspace_or_membership_is_never_changes(
    services: Services, ana: Person, ben: Person
) -> None:
    workspace = await new_workspace(services, ana)
    company = await new_company(services, ana)
    claims: list[LiteralString] = [
        "update workspaces set personal_to = %(ben)s where id = %(workspace)s",
        "update workspaces set personal_to = null where personal_to is not null",
        "update workspace_members set user_id = %(ben)s where workspace_id = %(workspace)s",
        "update company_members set user_id = %(ben)s where company_id = %(company)s",
        "update company_members set company_id = gen_random_uuid() where company_id = %(company)s",
    ]
    for claim in claims:
        with pytest.raises(NotAllowed):
            await run(services, ana.caller, claim, ben=ben.id, workspace=workspace, company=company)


async def test_a_personal_workspace_is_shared_with_nobody(
    services: Services, ana: Person, ben: Person
) -> None:
    share: LiteralString = (
        "insert into workspace_members (workspace_id, user_id) "
        "select id, %(ben)s from workspaces where personal_to = %(ana)s"
    )
    for caller in (ana.caller, SERVICE):
        with pytest.raises(Conflict, match="personal workspace"):
            await run(services, caller, share, ana=ana.id, ben=ben.id)


async def test_a_stranger_cannot_tell_a_personal_workspace_from_none(
    services: Services, ana: Person, ben: Person
) -> None:
    async with services.tenancy.acting_as(ana.caller) as tx:
        [personal] = await services.membership.workspaces(tx)
    enter: LiteralString = (
        "insert into workspace_members (workspace_id, user_id) values (%(workspace)s, %(id)s)"
    )
    answers = []
    for workspace in (personal.id, UUID(int=1)):
        with pytest.raises(RecollectError) as refusal:
            await run(services, ben.caller, enter, workspace=workspace, id=ben.id)
        answers.append((type(refusal.value), refusal.value.detail))

    assert answers[0] == answers[1]


async def test_two_last_owners_cannot_leave_at_once(services: Services, ana: Person, ben: Person) -> None:
    workspace = await new_workspace(services, ana, ben=(ben, "owner"))
    leave = Query("leave", "a workspace", LEAVE)
    judge = Query("judge", "now and not at the end", "set constraints all immediate")

    async def go(person: Person) -> None:
        async with services.tenancy.acting_as(person.caller) as tx:
            assert await tx.run(leave, {"id": person.id, "workspace": workspace}) == 1
            await tx.run(judge)

    async with services.tenancy.acting_as(ana.caller) as tx:
        await tx.run(leave, {"id": ana.id, "workspace": workspace})
        await tx.run(judge)
        second = asyncio.create_task(go(ben))
        await asyncio.wait({second}, timeout=0.5)
    with pytest.raises(Conflict, match="last owner"):
        await second

    owners: LiteralString = (
        "select count(*) from workspace_members where workspace_id = %(id)s and role = 'owner'"
    )
    assert await count(services, owners, id=workspace) == 1


async def test_a_company_keeps_an_active_owner(services: Services, ana: Person, ben: Person) -> None:
    company = await new_company(services, ana, ben=(ben, "owner"))
    members = services.membership.company_members
    inactive = CompanyMemberChange(status="inactive")

    async with services.tenancy.acting_as(ana.caller) as tx:
        await members.change(tx, company, ben.id, inactive)
    with pytest.raises(Conflict, match="last owner"):
        async with services.tenancy.acting_as(ana.caller) as tx:
            await members.change(tx, company, ana.id, inactive)


async def test_an_inactive_member_reads_and_changes_nothing_of_the_company(
    services: Services, ana: Person, ben: Person
) -> None:
    company = await new_company(services, ana, ben=(ben, "admin"))
    reads: list[LiteralString] = [
        "select 1 from companies where id = %(id)s",
        "select 1 from company_members where company_id = %(id)s",
        "select 1 from private.fellows(array[%(ana)s]::uuid[])",
        "update companies set name = 'Mine' where id = %(id)s",
        "update company_members set status = 'active' where user_id = %(ben)s",
        "delete from company_members where company_id = %(id)s",
    ]
    parameters = {"id": company, "ana": ana.id, "ben": ben.id}
    assert await run(services, ben.caller, reads[0], **parameters) == 1
    await run(
        services,
        ana.caller,
        "update company_members set status = 'inactive' where user_id = %(ben)s",
        ben=ben.id,
    )

    for sql in reads:
        assert await run(services, ben.caller, sql, **parameters) == 0, sql


async def test_only_managers_find_users_and_others_learn_nothing(
    services: Services, ana: Person, ben: Person, person: MakePerson
) -> None:
    workspace = await new_workspace(services, ana, ben=(ben, "reviewer"))
    await person("cleo@example.com")
    ask: LiteralString = "select private.user_to_add(%(id)s, %(email)s, null)"

    assert await run(services, ana.caller, ask, id=workspace, email="CLEO@example.com") == 1
    with pytest.raises(NotFound):
        await run(services, ana.caller, ask, id=workspace, email="nobody@example.com")
    refusals = set()
    for email in ("cleo@example.com", "nobody@example.com"):
        for place in (workspace, UUID(int=1), None):
            with pytest.raises(NotAllowed) as refusal:
                await run(services, ben.caller, ask, id=place, email=email)
            refusals.add(refusal.value.detail)
    assert len(refusals) == 1


async def test_an_address_that_nobody_confirmed_is_not_found(
    services: Services, ana: Person, ben: Person
) -> None:
    workspace = await new_workspace(services, ana)
    async with await psycopg.AsyncConnection.connect(services.database.admin) as admin:
        await admin.execute("update auth.users set email_confirmed_at = null where id = %s", [ben.id])

    wanted = NewWorkspaceMember(email=ben.email)
    with pytest.raises(NotFound):
        async with services.tenancy.acting_as(ana.caller) as tx:
            await services.membership.workspace_members.add(tx, workspace, wanted)


async def test_names_and_addresses_are_for_those_who_share_something(
    services: Services, ana: Person, ben: Person
) -> None:
    look: LiteralString = "select * from private.fellows(array[%(ana)s, %(ben)s]::uuid[])"
    assert await run(services, ben.caller, look, ana=ana.id, ben=ben.id) == 1
    await new_company(services, ana, ben=(ben, "member"))
    assert await run(services, ben.caller, look, ana=ana.id, ben=ben.id) == 2


async def test_a_workspace_or_company_comes_with_its_owner_or_not_at_all(
    services: Services, ana: Person
) -> None:
    async with await psycopg.AsyncConnection.connect(services.database.admin) as admin:
        await admin.execute("alter table companies add check (tax_regime <> 'impossible')")
        await admin.execute("alter table workspace_members add check (workspace_id is null) not valid")
    wanted = NewCompany(name="Halfway", tax_regime="impossible")
    with pytest.raises(InvalidInput):
        async with services.tenancy.acting_as(ana.caller) as tx:
            await services.membership.create_company(tx, wanted)
    with pytest.raises(InvalidInput):
        async with services.tenancy.acting_as(ana.caller) as tx:
            await services.membership.create_workspace(tx, NamedWorkspace(name="Halfway"))

    assert await count(services, "select count(*) from companies") == 0
    assert await count(services, "select count(*) from workspaces") == 1


async def test_nobody_makes_a_workspace_or_company_without_an_owner(services: Services, ana: Person) -> None:
    makings: list[LiteralString] = [
        "insert into workspaces (name) values ('Nobody''s')",
        "insert into companies (name) values ('Nobody''s')",
        "delete from companies",
    ]
    for making in makings:
        with pytest.raises(NotAllowed):
            await run(services, ana.caller, making)


async def test_a_deleted_account_takes_along_what_it_had_alone(services: Services, ana: Person) -> None:
    await new_workspace(services, ana)
    await new_company(services, ana)

    await services.access.remove_user(ana.email)

    assert await count(services, "select count(*) from workspaces") == 0
    assert await count(services, "select count(*) from company_members") == 0


async def test_an_account_is_deleted_and_the_next_in_line_takes_its_workspaces_over(
    services: Services, ana: Person, ben: Person, person: MakePerson
) -> None:
    eva = await person("eva@example.com")
    workspace = await new_workspace(services, ana, ben=(ben, "member"), eva=(eva, "admin"))

    await services.access.remove_user(ana.email)

    owners = (
        "select count(*) from workspace_members"
        " where workspace_id = %(id)s and user_id = %(user)s and role = 'owner'"
    )
    assert await count(services, owners, id=workspace, user=eva.id) == 1
    assert await count(services, owners, id=workspace, user=ben.id) == 0
