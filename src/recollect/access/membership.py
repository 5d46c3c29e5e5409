"""Who works with whom: workspaces, projects, companies and the people in them.

Nothing here decides who may do what. Each change first reads what it is about, so that what a caller
cannot see is not found; then row security lets the change through, or the caller's role was too low.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from recollect.access.identifiers import Identifiers
from recollect.access.membership_models import (
    Company,
    CompanyChange,
    CompanyMember,
    CompanyMemberChange,
    Member,
    NamedProject,
    NamedWorkspace,
    NewCompany,
    NewCompanyMember,
    NewMember,
    NewWorkspaceMember,
    Profile,
    ProfileChange,
    Project,
    Workspace,
    WorkspaceMember,
    WorkspaceMemberChange,
)
from recollect.access.roles import if_role_allows, role_decides
from recollect.access.store import queries
from recollect.db.queries import Query
from recollect.db.tenancy import Transaction
from recollect.errors import Conflict

PAGE = 1_000
# When the last row of the page before was made, and its id.
After = Sequence[str] | None

M = TypeVar("M", bound=Member)
New = TypeVar("New", bound=NewMember)
Change = TypeVar("Change", WorkspaceMemberChange, CompanyMemberChange)
Numbered = TypeVar("Numbered", NewCompany, CompanyChange, ProfileChange)


class AlreadyMember(Conflict):
    """That user is a member already; change the role instead."""

    code = "already_member"


class NameTaken(Conflict):
    """There is one of that name already; choose another."""

    code = "name_taken"


@dataclass(frozen=True)
class Members(Generic[M, New, Change]):
    """The people of a workspace or of a company."""

    model: type[M]
    see: Query
    listing: Query
    find: Query
    insert: Query
    update: Query
    delete: Query

    async def page(
        self, tx: Transaction, shared_id: UUID, *, after: After = None, limit: int = PAGE
    ) -> list[M]:
        await tx.one(self.see, {"id": shared_id})
        rows = await tx.all(self.listing, {"shared_id": shared_id, **_page(after, limit)}, last=True)
        return [self.model(**row) for row in rows]

    async def add(self, tx: Transaction, shared_id: UUID, wanted: New) -> M:
        await tx.one(self.see, {"id": shared_id})
        with role_decides():
            added = await tx.maybe(self.insert, {"shared_id": shared_id, **wanted.model_dump()})
        if added is None:
            raise AlreadyMember
        found = await tx.one(self.find, {"shared_id": shared_id, "user_id": added["user_id"]}, last=True)
        return self.model(**found)

    async def change(self, tx: Transaction, shared_id: UUID, member_id: UUID, wanted: Change) -> M:
        place = {"shared_id": shared_id, "user_id": member_id}
        await tx.one(self.find, place)
        changed = await if_role_allows(tx, self.update, {**place, **wanted.model_dump()})
        return self.model(**changed)

    async def remove(self, tx: Transaction, shared_id: UUID, member_id: UUID) -> None:
        """Take somebody out; everybody may take themselves out."""
        place = {"shared_id": shared_id, "user_id": member_id}
        await tx.one(self.find, place)
        await if_role_allows(tx, self.delete, place)


class Membership:
    workspace_members = Members[WorkspaceMember, NewWorkspaceMember, WorkspaceMemberChange](
        model=WorkspaceMember,
        see=queries.get_workspace,
        listing=queries.list_workspace_members,
        find=queries.get_workspace_member,
        insert=queries.add_workspace_member,
        update=queries.change_workspace_member,
        delete=queries.remove_workspace_member,
    )
    company_members = Members[CompanyMember, NewCompanyMember, CompanyMemberChange](
        model=CompanyMember,
        see=queries.get_company,
        listing=queries.list_company_members,
        find=queries.get_company_member,
        insert=queries.add_company_member,
        update=queries.change_company_member,
        delete=queries.remove_company_member,
    )

    def __init__(self, identifiers: Identifiers) -> None:
        self._identifiers = identifiers

    # Workspaces

    async def workspaces(self, tx: Transaction, *, after: After = None, limit: int = PAGE) -> list[Workspace]:
        """The caller's workspaces, oldest first."""
        rows = await tx.all(queries.list_workspaces, _page(after, limit), last=True)
        return [Workspace(**row) for row in rows]

    async def workspace(self, tx: Transaction, workspace_id: UUID) -> Workspace:
        return Workspace(**await tx.one(queries.get_workspace, {"id": workspace_id}))

    async def create_workspace(self, tx: Transaction, wanted: NamedWorkspace) -> Workspace:
        """A workspace whose owner is the caller."""
        made = await tx.one(queries.create_workspace, wanted.model_dump())
        return await self.workspace(tx, made["id"])

    async def rename_workspace(
        self, tx: Transaction, workspace_id: UUID, wanted: NamedWorkspace
    ) -> Workspace:
        await self.workspace(tx, workspace_id)
        await if_role_allows(tx, queries.rename_workspace, {"id": workspace_id, "name": wanted.name})
        return await self.workspace(tx, workspace_id)

    async def delete_workspace(self, tx: Transaction, workspace_id: UUID) -> None:
        await self.workspace(tx, workspace_id)
        await if_role_allows(tx, queries.delete_workspace, {"id": workspace_id})

    # Projects

    async def projects(
        self, tx: Transaction, workspace_id: UUID, *, after: str = "", limit: int = PAGE
    ) -> list[Project]:
        """A workspace's projects, by name."""
        await self.workspace(tx, workspace_id)
        parameters = {"workspace_id": workspace_id, "after": after, "limit": limit}
        return [Project(**row) for row in await tx.all(queries.list_projects, parameters, last=True)]

    async def create_project(self, tx: Transaction, workspace_id: UUID, wanted: NamedProject) -> Project:
        await self.workspace(tx, workspace_id)
        parameters = {"workspace_id": workspace_id, "name": wanted.name}
        with _name_is_free():
            return Project(**await if_role_allows(tx, queries.add_project, parameters))

    async def rename_project(
        self, tx: Transaction, workspace_id: UUID, project_id: UUID, wanted: NamedProject
    ) -> Project:
        place = {"workspace_id": workspace_id, "id": project_id}
        await tx.one(queries.get_project, place)
        with _name_is_free():
            return Project(**await if_role_allows(tx, queries.rename_project, {**place, "name": wanted.name}))

    async def delete_project(self, tx: Transaction, workspace_id: UUID, project_id: UUID) -> None:
        place = {"workspace_id": workspace_id, "id": project_id}
        await tx.one(queries.get_project, place)
        await if_role_allows(tx, queries.delete_project, place)

    # Companies

    async def companies(self, tx: Transaction, *, after: After = None, limit: int = PAGE) -> list[Company]:
        """The companies that the caller is an active member of, oldest first."""
        rows = await tx.all(queries.list_companies, _page(after, limit), last=True)
        return [Company(**row) for row in rows]

    async def company(self, tx: Transaction, company_id: UUID) -> Company:
        return Company(**await tx.one(queries.get_company, {"id": company_id}))

    async def create_company(self, tx: Transaction, wanted: NewCompany) -> Company:
        """A company whose owner is the caller."""
        wanted = self._checked(wanted)
        made = await tx.one(queries.create_company, {"name": wanted.name, "rut": wanted.rut})
        changes = wanted.model_dump_json(exclude_unset=True)
        await tx.one(queries.change_company, {"id": made["id"], "changes": changes})
        return await self.company(tx, made["id"])

    async def change_company(self, tx: Transaction, company_id: UUID, wanted: CompanyChange) -> Company:
        wanted = self._checked(wanted)
        await self.company(tx, company_id)
        keep_name = {"name"} if wanted.name is None else set()
        changes = wanted.model_dump_json(exclude_unset=True, exclude=keep_name)
        await if_role_allows(tx, queries.change_company, {"id": company_id, "changes": changes})
        return await self.company(tx, company_id)

    # The caller as a person

    async def profile(self, tx: Transaction) -> Profile:
        return Profile(**await tx.one(queries.get_profile, last=True))

    async def change_profile(self, tx: Transaction, wanted: ProfileChange) -> Profile:
        changes = self._checked(wanted).model_dump_json(exclude_unset=True)
        return Profile(**await tx.one(queries.change_profile, {"changes": changes}, last=True))

    def _checked(self, wanted: Numbered) -> Numbered:
        if wanted.rut is None:
            return wanted
        return wanted.model_copy(update={"rut": self._identifiers.checked(wanted.rut)})


def _page(after: After, limit: int) -> dict[str, Any]:
    moment, row_id = after or (None, None)
    return {"after": moment, "after_id": row_id, "limit": limit}


@contextmanager
def _name_is_free() -> Iterator[None]:
    try:
        yield
    except Conflict as error:
        raise NameTaken from error
