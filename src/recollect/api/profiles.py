"""The caller's own profile."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter

from recollect.access.membership_models import Profile, ProfileChange
from recollect.db.tenancy import Transaction
from recollect.http.callers import Recollect
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, transaction

router = APIRouter(tags=["profile"], route_class=RecollectRoute)

Reading = Annotated[Transaction, transaction("access:read")]
Writing = Annotated[Transaction, transaction("access:write")]


@router.get(
    "/api/profile", summary="Read the caller's profile.", response_model=Profile, responses=responses(404)
)
async def get_profile(tx: Reading, recollect: Recollect) -> Any:
    return await recollect.membership.profile(tx)


@router.patch(
    "/api/profile",
    summary="Change the caller's name, phone or RUT.",
    response_model=Profile,
    responses=responses(404),
)
async def change_profile(wanted: ProfileChange, tx: Writing, recollect: Recollect) -> Any:
    return await recollect.membership.change_profile(tx, wanted)
