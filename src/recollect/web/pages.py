"""The pages: signing in, what the bank holds, and the API's reference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.templating import Jinja2Templates
from starlette.responses import RedirectResponse, Response

from recollect.access.service import SpentLink, WrongCredentials
from recollect.errors import NotSignedIn, TooManyAttempts
from recollect.http.callers import Recollect, caller_of, services
from recollect.http.sessions import (
    clear_session_cookie,
    client_address,
    end_present_session,
    set_session_cookie,
    user_agent,
)
from recollect.web.reference import operations

HERE = Path(__file__).parent
STATIC = HERE / "static"
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

router = APIRouter(include_in_schema=False)
templates = Jinja2Templates(HERE / "templates")


def page(request: Request, name: str, *, status: int = 200, **context: Any) -> Response:
    return templates.TemplateResponse(request, name, context, status_code=status, headers=SECURITY)


def see_other(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303)


@router.get("/")
async def home(request: Request) -> Response:
    recollect = services(request)
    try:
        caller = await caller_of(request)
        async with recollect.tenancy.acting_as(caller.needing("read")) as tx:
            me = await recollect.access.me(tx)
            namespaces = await recollect.bank.namespaces(tx, me.id)
            entries = await recollect.bank.everything(tx, me.id, limit=50)
    except NotSignedIn:
        return see_other("/sign-in")
    return page(request, "home.html", me=me, namespaces=namespaces, entries=entries)


@router.get("/sign-in")
async def sign_in_page(request: Request, token: str | None = None) -> Response:
    return page(request, "sign_in.html", token=token)


@router.post("/sign-in")
async def sign_in(
    request: Request,
    recollect: Recollect,
    email: Annotated[str, Form(max_length=255)] = "",
    password: Annotated[str, Form(max_length=1024)] = "",
    token: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    agent = user_agent(request)
    try:
        if token:
            session = await recollect.access.sign_in_by_link(token, user_agent=agent)
        else:
            session = await recollect.access.sign_in(
                email, password, client=client_address(request), user_agent=agent
            )
    except (WrongCredentials, SpentLink, TooManyAttempts) as error:
        refusal = page(request, "sign_in.html", status=error.status, problem=error.detail, email=email)
        refusal.headers.update(error.headers)
        return refusal
    await end_present_session(request, recollect)
    response = see_other("/")
    set_session_cookie(request, response, session)
    return response


@router.post("/sign-out")
async def sign_out(request: Request, recollect: Recollect) -> Response:
    await end_present_session(request, recollect)
    response = see_other("/sign-in")
    clear_session_cookie(response)
    return response


@router.get("/docs")
async def reference(request: Request) -> Response:
    return page(request, "reference.html", groups=operations(request.app.openapi()))
