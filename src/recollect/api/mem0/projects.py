"""mem0's endpoints for who is calling: ping, and projects, which are the caller's workspaces here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query

from recollect.access.membership_models import (
    NamedWorkspace,
    NewWorkspaceMember,
    WorkspaceMember,
    WorkspaceMemberChange,
)
from recollect.access.models import WorkspaceRole
from recollect.api.mem0.models import Member, NewProject, ProjectChange
from recollect.api.mem0.routing import new_router, project_in
from recollect.api.mem0.shapes import of_member
from recollect.bootstrap import Services
from recollect.db.tenancy import Transaction
from recollect.engine.dialect.models import UnknownProject, Wishes
from recollect.errors import InvalidInput, NotFound
from recollect.http.callers import Recollect
from recollect.http.routing import transaction

ORGANISATION = "/api/v1/orgs/organizations/{org_id}/projects/"
PROJECT = ORGANISATION + "{project_id}/"
ROLES: Mapping[str, WorkspaceRole] = {"OWNER": "owner", "READER": "viewer"}

router = new_router()
Reading = Annotated[Transaction, transaction("access:read")]
Writing = Annotated[Transaction, transaction("access:write")]


async def _project(org_id: Annotated[str, Path()], project_id: Annotated[str, Path()]) -> UUID:
    # Row security says which projects are the caller's; to them they all belong to one organisation.
    del org_id
    return project_in(project_id)


ProjectId = Annotated[UUID, Depends(_project)]


@router.get("/v1/ping/")
async def ping(tx: Annotated[Transaction, transaction("any")], recollect: Recollect) -> Any:
    account = await recollect.dialect.account(tx)
    return {
        "status": "ok",
        "org_id": str(account.user_id),
        "project_id": str(account.project_id),
        "user_email": account.email,
    }


@router.get(ORGANISATION)
async def list_projects(tx: Reading, recollect: Recollect) -> Any:
    found = await recollect.membership.workspaces(tx)
    return [{"project_id": one.id, "name": one.name, "created_at": one.created_at} for one in found]


@router.post(ORGANISATION)
async def create_project(wanted: NewProject, tx: Writing, recollect: Recollect) -> Any:
    made = await recollect.membership.create_workspace(tx, NamedWorkspace(name=wanted.name))
    return {"message": "Project created successfully.", "project_id": made.id, "name": made.name}


@router.get(PROJECT)
async def get_project(
    project: ProjectId,
    tx: Reading,
    recollect: Recollect,
    fields: Annotated[list[str] | None, Query(max_length=100)] = None,
) -> Any:
    found = await recollect.membership.workspace(tx, project)
    members = await _members(recollect, tx, project)
    wishes = await recollect.dialect.wishes(tx, project)
    shape = {
        "project_id": found.id,
        "name": found.name,
        "created_at": found.created_at,
        "updated_at": found.updated_at,
        "members": [of_member(member) for member in members],
        "custom_instructions": wishes.custom_instructions,
        "agent_custom_instructions": wishes.agent_custom_instructions,
        "custom_categories": wishes.custom_categories,
        "multilingual": True,
        "decay": False,
        "is_default": found.is_personal,
        "user_role": "OWNER" if found.role == "owner" else "READER",
    }
    return {name: value for name, value in shape.items() if not fields or name in fields}


@router.patch(PROJECT)
async def change_project(project: ProjectId, wanted: ProjectChange, tx: Writing, recollect: Recollect) -> Any:
    if wanted.multilingual is False or wanted.decay:
        raise InvalidInput(
            "Memories are kept in the language in which they were told, and do not decay;"
            " leave multilingual and decay out."
        )
    await recollect.membership.workspace(tx, project)
    if wanted.name is not None:
        await recollect.membership.rename_workspace(tx, project, NamedWorkspace(name=wanted.name))
    told = wanted.custom_instructions
    wishes = Wishes(
        custom_instructions="\n".join(told) if isinstance(told, list) else told,
        agent_custom_instructions=wanted.agent_custom_instructions,
        custom_categories=wanted.custom_categories,
    )
    if wishes != Wishes():
        await recollect.dialect.change_wishes(tx, project, wishes)
    message = "Project updated successfully."
    if wanted.custom_categories is not None:
        message += " Categories are kept, but nothing is sorted into them."
    return {"message": message}


@router.delete(PROJECT)
async def delete_project(project: ProjectId, tx: Writing, recollect: Recollect) -> Any:
    await recollect.membership.delete_workspace(tx, project)
    return {"message": "Project and related data deleted successfully."}


# Members


@router.get(PROJECT + "members/")
async def list_members(project: ProjectId, tx: Reading, recollect: Recollect) -> Any:
    return {"members": [of_member(member) for member in await _members(recollect, tx, project)]}


@router.post(PROJECT + "members/")
async def add_member(project: ProjectId, wanted: Member, tx: Writing, recollect: Recollect) -> Any:
    member = NewWorkspaceMember(email=wanted.email, role=_role(wanted.role))
    await recollect.membership.workspace_members.add(tx, project, member)
    return {"message": "User added to the project successfully."}


@router.put(PROJECT + "members/")
async def change_member(project: ProjectId, wanted: Member, tx: Writing, recollect: Recollect) -> Any:
    member = await _member(recollect, tx, project, wanted.email)
    change = WorkspaceMemberChange(role=_role(wanted.role))
    await recollect.membership.workspace_members.change(tx, project, member, change)
    return {"message": "User role updated successfully."}


@router.delete(PROJECT + "members/")
async def remove_member(
    project: ProjectId, email: Annotated[str, Query(max_length=255)], tx: Writing, recollect: Recollect
) -> Any:
    member = await _member(recollect, tx, project, email)
    await recollect.membership.workspace_members.remove(tx, project, member)
    return {"message": "Member removed from the project"}


async def _members(recollect: Services, tx: Transaction, project: UUID) -> list[WorkspaceMember]:
    tx.hold()
    try:
        return await recollect.membership.workspace_members.page(tx, project)
    except NotFound as error:
        raise UnknownProject from error


async def _member(recollect: Services, tx: Transaction, project: UUID, email: str) -> UUID:
    for member in await _members(recollect, tx, project):
        if member.email is not None and member.email.lower() == email.lower():
            return member.user_id
    raise NotFound("Nobody with that address is a member of this project.")


def _role(given: str) -> WorkspaceRole:
    if given not in ROLES:
        raise InvalidInput("role: OWNER or READER.")
    return ROLES[given]
