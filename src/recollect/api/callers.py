"""From a request to a transaction that acts for its caller."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request

from recollect.access.tokens import API_KEY_PREFIX
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller, Transaction
from recollect.errors import InvalidInput, NotAllowed, NotSignedIn

COOKIE = "recollect_session"
SECURE_COOKIE = "__Host-recollect_session"


def services(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


async def _services(request: Request) -> Services:
    # Async although it awaits nothing: FastAPI runs a plain function in a thread, for every request.
    return services(request)


Recollect = Annotated[Services, Depends(_services)]


def session_token(request: Request) -> str | None:
    return request.cookies.get(SECURE_COOKIE) or request.cookies.get(COOKIE)


async def caller_of(request: Request) -> Caller:
    """Whose request this claims to be. Keys and sessions are judged by the database, in the
    transaction itself; a Supabase token and the service key are judged here."""
    recollect = services(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        if scheme.lower() != "bearer" or not token:
            raise NotSignedIn
        if token.startswith(API_KEY_PREFIX):
            return Caller.by_key(recollect.secret.digest(token))
        if _is_service_key(recollect, token):
            return SERVICE
        return Caller.user(await recollect.tokens.user_of(token))
    if session := session_token(request):
        return Caller.by_session(recollect.secret.digest(session))
    raise NotSignedIn


def acting(needs: str) -> Callable[[Request], AsyncIterator[Transaction]]:
    """A dependency: one transaction for the request, for its caller, who needs this scope.

    It is committed when the endpoint has returned and before the answer is sent: use it with
    ``scope="function"``.
    """

    async def transaction(request: Request) -> AsyncIterator[Transaction]:
        caller = _for_subject(await caller_of(request), _subject(request)).needing(needs)
        async with services(request).tenancy.acting_as(caller) as tx:
            begin: Callable[[Transaction], Awaitable[None]] | None
            begin = getattr(request.state, "begin", None)
            if begin is not None:
                await begin(tx)
            yield tx

    return transaction


def transaction(needs: str) -> Any:
    return Depends(acting(needs), scope="function")


def _for_subject(caller: Caller, subject: UUID | None) -> Caller:
    if caller is not SERVICE:
        return caller.about(subject)
    if subject is None:
        raise NotAllowed("The service key acts for a user; this address names none.")
    return Caller.user(subject)


def _subject(request: Request) -> UUID | None:
    named = request.path_params.get("userId")
    if named is None:
        return None
    try:
        return UUID(named)
    except ValueError as error:
        raise InvalidInput("userId: that is not a UUID.") from error


def _is_service_key(recollect: Services, token: str) -> bool:
    key = recollect.settings.service_key
    return key is not None and hmac.compare_digest(
        key.get_secret_value().encode(), token.encode(errors="replace")
    )
