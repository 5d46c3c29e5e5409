"""Companies and the people in them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from recollect.access.membership_models import (
    Company,
    CompanyChange,
    CompanyMember,
    CompanyMemberChange,
    NewCompany,
    NewCompanyMember,
)
from recollect.db.tenancy import Transaction
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction
from recollect.kit.paging import InvalidCursor

router = APIRouter(tags=["companies"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("access:read")]
Writing = Annotated[Transaction, transaction("access:write")]
CompanyId = Annotated[Id, Path(alias="companyId")]
MemberId = Annotated[Id, Path(alias="memberId", description="The member's user id.")]


@router.get(
    "/api/companies",
    summary="List the companies that the caller is an active member of.",
    response_model=Page[Company],
    response_model_exclude_unset=True,
)
async def list_companies(wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    def position(one: Company) -> list[str]:
        return [one.created_at.isoformat(), str(one.id), str(tx.principal.user_id)]

    async def fetch(after: list[Any] | None, limit: int) -> list[Company]:
        found = await recollect.membership.companies(tx, after=after[:2] if after else None, limit=limit)
        # The address does not name the caller; who it is comes with the rows.
        if after and after[2] != str(tx.principal.user_id):
            raise InvalidCursor
        return found

    listing = Listing[Company](recollect.cursors, ("companies",), position)
    return await listing.page(wanted, fetch)


@router.post(
    "/api/companies",
    summary="Create a company, owned by the caller.",
    status_code=201,
    response_model=Company,
    responses=responses(409),
    dependencies=[idempotent],
)
async def create_company(wanted: NewCompany, tx: Writing, recollect: Recollect) -> Any:
    return await recollect.membership.create_company(tx, wanted)


@router.get(
    "/api/companies/{companyId}",
    summary="Read one company.",
    response_model=Company,
    responses=responses(404),
)
async def get_company(company_id: CompanyId, tx: Reading, recollect: Recollect) -> Any:
    return await recollect.membership.company(tx, company_id)


@router.patch(
    "/api/companies/{companyId}",
    summary="Change a company's details (owners and admins).",
    response_model=Company,
    responses=responses(404, 409),
)
async def change_company(
    company_id: CompanyId, wanted: CompanyChange, tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.membership.change_company(tx, company_id, wanted)


@router.get(
    "/api/companies/{companyId}/members",
    summary="List the people of a company, in the order in which they came.",
    response_model=Page[CompanyMember],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_members(
    company_id: CompanyId, wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    listing = Listing[CompanyMember](
        recollect.cursors,
        ("company members", str(company_id)),
        lambda member: [member.created_at.isoformat(), str(member.user_id)],
    )

    async def fetch(after: list[Any] | None, limit: int) -> list[CompanyMember]:
        return await recollect.membership.company_members.page(tx, company_id, after=after, limit=limit)

    return await listing.page(wanted, fetch)


@router.post(
    "/api/companies/{companyId}/members",
    summary="Add somebody to a company by e-mail address or user id (owners and admins).",
    status_code=201,
    response_model=CompanyMember,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def add_member(
    company_id: CompanyId, wanted: NewCompanyMember, tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.membership.company_members.add(tx, company_id, wanted)


@router.patch(
    "/api/companies/{companyId}/members/{memberId}",
    summary="Change a member's role or status (owners and admins; owners are changed by owners).",
    response_model=CompanyMember,
    responses=responses(404, 409),
)
async def change_member(
    company_id: CompanyId,
    member_id: MemberId,
    wanted: CompanyMemberChange,
    tx: Writing,
    recollect: Recollect,
) -> Any:
    return await recollect.membership.company_members.change(tx, company_id, member_id, wanted)


@router.delete(
    "/api/companies/{companyId}/members/{memberId}",
    summary="Remove a member (owners and admins), or leave (everybody but the last owner).",
    status_code=204,
    responses=responses(404, 409),
)
async def remove_member(
    company_id: CompanyId, member_id: MemberId, tx: Writing, recollect: Recollect
) -> None:
    await recollect.membership.company_members.remove(tx, company_id, member_id)
