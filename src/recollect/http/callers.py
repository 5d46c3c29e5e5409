"""From a request to a transaction that acts for its caller."""

from __future__ import annotations

import hmac
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Request
from pydantic import BeforeValidator
from starlette.requests import HTTPConnection

from recollect.access.tokens import API_KEY_PREFIX, InvalidToken
from recollect.bootstrap import Services
from recollect.db.tenancy import SERVICE, Caller, Transaction
from recollect.errors import InvalidInput, NotAllowed, NotFound, NotSignedIn

COOKIE = "recollect_session"
# Browsers take a cookie of this name only from the site itself, over https, for all of its paths.
SECURE_COOKIE = "__Host-recollect_session"

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def services(request: HTTPConnection) -> Services:
    found: Services = request.app.state.services
    return found


async def _services(request: Request) -> Services:
    # Async although it awaits nothing: FastAPI runs a plain function in a thread, for every request.
    return services(request)


Recollect = Annotated[Services, Depends(_services)]


def _canonical(given: object) -> object:
    # Others read more than this as a UUID: braces, "urn:uuid:", and in Python any script's digits.
    if isinstance(given, str) and not _UUID.fullmatch(given):
        raise ValueError("that is not a UUID")
    return given


Id = Annotated[UUID, BeforeValidator(_canonical)]
Owner = Annotated[Id, Path(alias="userId", description="The caller's own id; an admin's, anybody's.")]


def is_secure(request: HTTPConnection) -> bool:
    # Browsers drop Secure cookies on plain http, which is what a laptop serves on loopback.
    return request.url.scheme in {"https", "wss"} or request.url.hostname not in _LOOPBACK


def session_token(request: HTTPConnection) -> str | None:
    return request.cookies.get(SECURE_COOKIE if is_secure(request) else COOKIE)


async def caller_of(request: HTTPConnection) -> Caller:
    """Whose request this claims to be. Keys and sessions are judged by the database, in the
    transaction itself; a Supabase token and the service key are judged here."""
    recollect = services(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme:
        # mem0's clients call it a token; it is the same key.
        if scheme.lower() not in {"bearer", "token"} or not token:
            raise NotSignedIn
        return await caller_with(recollect, token)
    if session := session_token(request):
        return Caller.by_session(recollect.secret.digest(session))
    raise NotSignedIn


async def caller_with(recollect: Services, token: str) -> Caller:
    """Who sends this bearer token."""
    if token.startswith(API_KEY_PREFIX):
        return Caller.by_key(recollect.secret.digest(token))
    if _is_service_key(recollect, token):
        return SERVICE
    verified = await recollect.tokens.verified(token)
    try:
        await recollect.access.welcome(verified.user_id)
    except NotFound as error:
        raise InvalidToken("That account is gone; sign in again.") from error
    return Caller.user(verified.user_id, verified.expires_at)


async def caller_for(request: Request, needs: str, *, lets_service_in: bool = False) -> Caller:
    """The request's caller, asking for this scope, about the user whom the path names, if it does."""
    caller, subject = await caller_of(request), _subject(request)
    if caller is not SERVICE:
        return caller.about(subject).needing(needs)
    return SERVICE if subject is None and lets_service_in else _service_for(subject)


def is_service(request: Request) -> bool:
    """Whether the service key was sent, which may do everything for every user."""
    _, _, token = request.headers.get("authorization", "").partition(" ")
    return _is_service_key(services(request), token)


@asynccontextmanager
async def as_service(tx: Transaction, recollect: Services) -> AsyncIterator[Transaction]:
    """A transaction of the service's, for an admin whose own one this is, or for the service itself."""
    if tx.caller is SERVICE:
        yield tx
        return
    # Who calls is judged with the first statement: nobody but an admin gets past this one.
    await recollect.access.me(tx)
    await tx.finish()
    async with recollect.tenancy.acting_as(SERVICE, for_one_call=True) as own:
        yield own


def _service_for(subject: UUID | None) -> Caller:
    if subject is None:
        raise NotAllowed("The service key acts for a user; this address names none.")
    # The service may do everything: of the user it asks the least that every user may.
    return Caller.user(subject).needing("read")


def _subject(request: Request) -> UUID | None:
    named = request.path_params.get("userId")
    if named is None:
        return None
    if not _UUID.fullmatch(named):
        raise InvalidInput("userId: that is not a UUID.")
    return UUID(named)


def _is_service_key(recollect: Services, token: str) -> bool:
    key = recollect.settings.service_key
    return key is not None and hmac.compare_digest(
        key.get_secret_value().encode(), token.encode(errors="replace")
    )
