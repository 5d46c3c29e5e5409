"""recollect workspace: the places that people share. Everything is done as the user named would do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from recollect.access.membership_models import (
    NamedWorkspace,
    NewWorkspaceMember,
    Workspace,
    WorkspaceMember,
    WorkspaceMemberChange,
)
from recollect.cli.console import AsJson, acting_for, out, show, show_all, validated, with_services

if TYPE_CHECKING:
    from recollect.access.membership import Membership
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction

T = TypeVar("T")

app = typer.Typer(help="Workspaces and their members.", no_args_is_help=True)

Actor = Annotated[str, typer.Option("--user", metavar="EMAIL", help="Who does it.")]
WorkspaceId = Annotated[UUID, typer.Argument(metavar="ID")]
Name = Annotated[str, typer.Argument(metavar="NAME")]
MemberEmail = Annotated[str, typer.Argument(metavar="EMAIL", help="Whom it is about.")]
Role = Annotated[str, typer.Option(help="owner, admin, reviewer, member or viewer.")]


@app.command("list")
def list_(user: Actor, as_json: AsJson = False) -> None:
    """List a user's workspaces, with the user's role in each."""

    async def fetch(membership: Membership, tx: Transaction) -> list[Workspace]:
        return await membership.workspaces(tx)

    show_all(_as(user, fetch), ("name", "role", "is_personal", "created_at", "id"), as_json=as_json)


@app.command()
def create(name: Name, user: Actor, as_json: AsJson = False) -> None:
    """Create a workspace, owned by the user."""
    wanted = validated(NamedWorkspace, name=name)
    show(_as(user, lambda membership, tx: membership.create_workspace(tx, wanted)), as_json=as_json)


@app.command()
def rename(workspace: WorkspaceId, name: Name, user: Actor, as_json: AsJson = False) -> None:
    """Rename a workspace."""
    wanted = validated(NamedWorkspace, name=name)
    renamed = _as(user, lambda membership, tx: membership.rename_workspace(tx, workspace, wanted))
    show(renamed, as_json=as_json)


@app.command()
def members(workspace: WorkspaceId, user: Actor, as_json: AsJson = False) -> None:
    """List the people of a workspace."""

    async def fetch(membership: Membership, tx: Transaction) -> list[WorkspaceMember]:
        return await membership.workspace_members.page(tx, workspace)

    show_all(_as(user, fetch), ("email", "full_name", "role", "created_at", "user_id"), as_json=as_json)


@app.command()
def add(
    workspace: WorkspaceId, email: MemberEmail, user: Actor, role: Role = "member", as_json: AsJson = False
) -> None:
    """Add somebody who has an account to a workspace."""
    wanted = validated(NewWorkspaceMember, email=email, role=role)
    added = _as(user, lambda membership, tx: membership.workspace_members.add(tx, workspace, wanted))
    show(added, as_json=as_json)


@app.command("role")
def change_role(
    workspace: WorkspaceId, email: MemberEmail, user: Actor, role: Role, as_json: AsJson = False
) -> None:
    """Give a member another role."""
    wanted = validated(WorkspaceMemberChange, role=role)

    async def change(services: Services) -> WorkspaceMember:
        member = await services.access.find_user(email)
        async with acting_for(services, user) as (tx, _):
            return await services.membership.workspace_members.change(tx, workspace, member.id, wanted)

    show(with_services(change), as_json=as_json)


@app.command()
def remove(workspace: WorkspaceId, email: MemberEmail, user: Actor) -> None:
    """Remove a member, or let the user leave."""

    async def end(services: Services) -> None:
        member = await services.access.find_user(email)
        async with acting_for(services, user) as (tx, _):
            await services.membership.workspace_members.remove(tx, workspace, member.id)

    with_services(end)
    out.print(f"{email} is no longer a member.", markup=False)


def _as(user: str, work: Callable[[Membership, Transaction], Awaitable[T]]) -> T:
    async def run(services: Services) -> T:
        async with acting_for(services, user) as (tx, _):
            return await work(services.membership, tx)

    return with_services(run)
