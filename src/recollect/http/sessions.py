"""A browser's session: its cookie, and where it comes from."""

from __future__ import annotations

from fastapi import Request, Response

from recollect.access.models import NewSession
from recollect.bootstrap import Services
from recollect.http.callers import COOKIE, SECURE_COOKIE, is_secure, session_token


def set_session_cookie(request: Request, response: Response, session: NewSession) -> None:
    secure = is_secure(request)
    response.set_cookie(
        SECURE_COOKIE if secure else COOKIE,
        session.token,
        expires=session.expires_at,
        path="/",
        httponly=True,
        samesite="lax",
        secure=secure,
    )


def clear_session_cookie(response: Response) -> None:
    response.delete_cookie(COOKIE, path="/")
    response.delete_cookie(SECURE_COOKIE, path="/", secure=True)


async def end_present_session(request: Request, recollect: Services) -> None:
    """Signing in starts a fresh session; one that the browser brought along ends."""
    if token := session_token(request):
        await recollect.access.sign_out(token)


def client_address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def user_agent(request: Request) -> str | None:
    return request.headers.get("user-agent", "")[:300] or None
