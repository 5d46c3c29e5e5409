"""Signing in and out, sessions and API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from recollect.access.models import (
    ApiKey,
    IssuedKey,
    LinkSignIn,
    Me,
    NewKey,
    PasswordChange,
    PasswordSignIn,
    Session,
)
from recollect.db.tenancy import Transaction
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction
from recollect.http.sessions import (
    clear_session_cookie,
    client_address,
    end_present_session,
    set_session_cookie,
    user_agent,
)
from recollect.kit.paging import InvalidCursor

router = APIRouter(tags=["access"], route_class=RecollectRoute)

Identified = Annotated[Transaction, transaction("any")]
Reading = Annotated[Transaction, transaction("access:read")]
Writing = Annotated[Transaction, transaction("access:write")]


@router.post(
    "/api/auth/sign-in",
    summary="Sign in by password; the answer sets a session cookie.",
    status_code=204,
    responses=responses(401, 429, 503),
)
async def sign_in(wanted: PasswordSignIn, request: Request, response: Response, recollect: Recollect) -> None:
    session = await recollect.access.sign_in(
        wanted.email,
        wanted.password,
        client=client_address(request),
        user_agent=user_agent(request),
    )
    await end_present_session(request, recollect)
    set_session_cookie(request, response, session)


@router.post(
    "/api/auth/sign-in/link",
    summary="Sign in by a one-time link's token; the answer sets a session cookie.",
    status_code=204,
    responses=responses(401, 503),
)
async def sign_in_by_link(
    wanted: LinkSignIn, request: Request, response: Response, recollect: Recollect
) -> None:
    session = await recollect.access.sign_in_by_link(wanted.token, user_agent=user_agent(request))
    await end_present_session(request, recollect)
    set_session_cookie(request, response, session)


@router.post(
    "/api/auth/sign-out",
    summary="End the present session.",
    status_code=204,
    responses=responses(503),
)
async def sign_out(request: Request, response: Response, recollect: Recollect) -> None:
    await end_present_session(request, recollect)
    clear_session_cookie(response)


@router.get("/api/auth/me", summary="Who the caller is.", response_model=Me)
async def me(tx: Identified, recollect: Recollect) -> Any:
    return await recollect.access.me(tx)


@router.post(
    "/api/auth/password",
    summary="Set or change the password, in a session; all other sessions end.",
    status_code=204,
    responses=responses(409, 429),
)
async def change_password(wanted: PasswordChange, tx: Writing, recollect: Recollect) -> None:
    await recollect.access.me(tx)
    # It may hold a lock on the caller's session, which others in there are waiting for.
    await tx.finish()
    await recollect.access.change_password(tx.principal, wanted)


@router.get(
    "/api/auth/sessions",
    summary="List the browsers that are signed in.",
    response_model=Page[Session],
    response_model_exclude_unset=True,
)
async def list_sessions(tx: Reading, recollect: Recollect) -> Any:
    return {"data": await recollect.access.sessions(tx)}


@router.delete(
    "/api/auth/sessions/{sessionId}",
    summary="Sign one browser out.",
    status_code=204,
    responses=responses(404),
)
async def end_session(
    session_id: Annotated[Id, Path(alias="sessionId")], tx: Writing, recollect: Recollect
) -> None:
    await recollect.access.end_session(tx, session_id)


@router.get(
    "/api/auth/keys",
    summary="List API keys, newest first.",
    response_model=Page[ApiKey],
    response_model_exclude_unset=True,
)
async def list_keys(wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect) -> Any:
    def position(key: ApiKey) -> list[str]:
        return [key.created_at.isoformat(), str(key.id), str(tx.principal.user_id)]

    async def fetch(after: list[Any] | None, limit: int) -> list[ApiKey]:
        before = (datetime.fromisoformat(after[0]), UUID(after[1])) if after else None
        keys = await recollect.access.keys(tx, before=before, limit=limit)
        # The address does not name the caller; who it is comes with the rows.
        if after and after[2] != str(tx.principal.user_id):
            raise InvalidCursor
        return keys

    listing = Listing[ApiKey](recollect.cursors, ("keys",), position)
    return await listing.page(wanted, fetch)


@router.post(
    "/api/auth/keys",
    summary="Make an API key; the answer is the only place where it is shown.",
    status_code=201,
    response_model=IssuedKey,
    responses=responses(409),
    dependencies=[idempotent],
)
async def create_key(wanted: NewKey, tx: Writing, recollect: Recollect) -> Any:
    return await recollect.access.create_key(tx, wanted)


@router.delete(
    "/api/auth/keys/{keyId}",
    summary="Revoke an API key.",
    response_model=ApiKey,
    responses=responses(404),
)
async def revoke_key(key_id: Annotated[Id, Path(alias="keyId")], tx: Writing, recollect: Recollect) -> Any:
    return await recollect.access.revoke_key(tx, key_id)
