"""Workspaces, the people in them and their projects."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from recollect.access.membership_models import (
    NamedProject,
    NamedWorkspace,
    NewWorkspaceMember,
    Project,
    Workspace,
    WorkspaceMember,
    WorkspaceMemberChange,
)
from recollect.db.tenancy import Transaction
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction
from recollect.kit.paging import InvalidCursor

router = APIRouter(tags=["workspaces"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("access:read")]
Writing = Annotated[Transaction, transaction("access:write")]
WorkspaceId = Annotated[Id, Path(alias="workspaceId")]
MemberId = Annotated[Id, Path(alias="memberId", description="The member's user id.")]
ProjectId = Annotated[Id, Path(alias="projectId")]


@router.get(
    "/api/workspaces",
    summary="List the caller's workspaces, with the caller's role in each.",
    response_model=Page[Workspace],
    response_model_exclude_unset=True,
)
async def list_workspaces(wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    def position(one: Workspace) -> list[str]:
        return [one.created_at.isoformat(), str(one.id), str(tx.principal.user_id)]

    async def fetch(after: list[Any] | None, limit: int) -> list[Workspace]:
        found = await recollect.membership.workspaces(tx, after=after[:2] if after else None, limit=limit)
        # The address does not name the caller; who it is comes with the rows.
        if after and after[2] != str(tx.principal.user_id):
            raise InvalidCursor
        return found

    listing = Listing[Workspace](recollect.cursors, ("workspaces",), position)
    return await listing.page(wanted, fetch)


@router.post(
    "/api/workspaces",
    summary="Create a workspace, owned by the caller.",
    status_code=201,
    response_model=Workspace,
    responses=responses(409),
    dependencies=[idempotent],
)
async def create_workspace(wanted: NamedWorkspace, tx: Writing, recollect: Recollect) -> Any:
    return await recollect.membership.create_workspace(tx, wanted)


@router.get(
    "/api/workspaces/{workspaceId}",
    summary="Read one workspace.",
    response_model=Workspace,
    responses=responses(404),
)
async def get_workspace(workspace_id: WorkspaceId, tx: Reading, recollect: Recollect) -> Any:
    return await recollect.membership.workspace(tx, workspace_id)


@router.patch(
    "/api/workspaces/{workspaceId}",
    summary="Rename a workspace (owners and admins).",
    response_model=Workspace,
    responses=responses(404, 409),
)
async def rename_workspace(
    workspace_id: WorkspaceId, wanted: NamedWorkspace, tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.membership.rename_workspace(tx, workspace_id, wanted)


@router.delete(
    "/api/workspaces/{workspaceId}",
    summary="Delete a workspace and everything in it (owners; never one's personal workspace).",
    status_code=204,
    responses=responses(404),
)
async def delete_workspace(workspace_id: WorkspaceId, tx: Writing, recollect: Recollect) -> None:
    await recollect.membership.delete_workspace(tx, workspace_id)


@router.get(
    "/api/workspaces/{workspaceId}/members",
    summary="List the people of a workspace, in the order in which they came.",
    response_model=Page[WorkspaceMember],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_members(
    workspace_id: WorkspaceId, wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    listing = Listing[WorkspaceMember](
        recollect.cursors,
        ("workspace members", str(workspace_id)),
        lambda member: [member.created_at.isoformat(), str(member.user_id)],
    )

    async def fetch(after: list[Any] | None, limit: int) -> list[WorkspaceMember]:
        members = recollect.membership.workspace_members
        return await members.page(tx, workspace_id, after=after, limit=limit)

    return await listing.page(wanted, fetch)


@router.post(
    "/api/workspaces/{workspaceId}/members",
    summary="Add somebody to a workspace by e-mail address or user id (owners and admins).",
    status_code=201,
    response_model=WorkspaceMember,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def add_member(
    workspace_id: WorkspaceId, wanted: NewWorkspaceMember, tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.membership.workspace_members.add(tx, workspace_id, wanted)


@router.patch(
    "/api/workspaces/{workspaceId}/members/{memberId}",
    summary="Give a member another role (owners and admins; only owners make and unmake owners).",
    response_model=WorkspaceMember,
    responses=responses(404, 409),
)
async def change_member(
    workspace_id: WorkspaceId,
    member_id: MemberId,
    wanted: WorkspaceMemberChange,
    tx: Writing,
    recollect: Recollect,
) -> Any:
    return await recollect.membership.workspace_members.change(tx, workspace_id, member_id, wanted)


@router.delete(
    "/api/workspaces/{workspaceId}/members/{memberId}",
    summary="Remove a member (owners and admins), or leave (everybody but the last owner).",
    status_code=204,
    responses=responses(404, 409),
)
async def remove_member(
    workspace_id: WorkspaceId, member_id: MemberId, tx: Writing, recollect: Recollect
) -> None:
    await recollect.membership.workspace_members.remove(tx, workspace_id, member_id)


@router.get(
    "/api/workspaces/{workspaceId}/projects",
    summary="List a workspace's projects by name.",
    response_model=Page[Project],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_projects(
    workspace_id: WorkspaceId, wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    listing = Listing[Project](
        recollect.cursors, ("projects", str(workspace_id)), lambda project: [project.name]
    )

    async def fetch(after: list[Any] | None, limit: int) -> list[Project]:
        name = after[0] if after else ""
        return await recollect.membership.projects(tx, workspace_id, after=name, limit=limit)

    return await listing.page(wanted, fetch)


@router.post(
    "/api/workspaces/{workspaceId}/projects",
    summary="Begin a project in a workspace (everybody but viewers).",
    status_code=201,
    response_model=Project,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def create_project(
    workspace_id: WorkspaceId, wanted: NamedProject, tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.membership.create_project(tx, workspace_id, wanted)


@router.patch(
    "/api/workspaces/{workspaceId}/projects/{projectId}",
    summary="Rename a project (everybody but viewers).",
    response_model=Project,
    responses=responses(404, 409),
)
async def rename_project(
    workspace_id: WorkspaceId,
    project_id: ProjectId,
    wanted: NamedProject,
    tx: Writing,
    recollect: Recollect,
) -> Any:
    return await recollect.membership.rename_project(tx, workspace_id, project_id, wanted)


@router.delete(
    "/api/workspaces/{workspaceId}/projects/{projectId}",
    summary="Delete a project and everything in it (everybody but viewers).",
    status_code=204,
    responses=responses(404),
)
async def delete_project(
    workspace_id: WorkspaceId, project_id: ProjectId, tx: Writing, recollect: Recollect
) -> None:
    await recollect.membership.delete_project(tx, workspace_id, project_id)
