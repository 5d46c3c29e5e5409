"""The pages of webhooks: whom a workspace tells, and what became of what it told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar, get_args
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from recollect.access.membership_models import Workspace
from recollect.access.models import Me
from recollect.bootstrap import Services
from recollect.db.tenancy import Transaction
from recollect.errors import Conflict, InvalidInput, NotAllowed, NotFound, NotSignedIn, RecollectError
from recollect.events.webhooks.models import (
    Delivery,
    DeliveryState,
    Endpoint,
    EndpointChange,
    NewEndpoint,
)
from recollect.events.webhooks.service import UnknownWebhook
from recollect.http.callers import Id, Recollect, caller_of, services
from recollect.http.paging import Listing, PageQuery
from recollect.kit.paging import InvalidCursor
from recollect.web.events_pages import GROUPS
from recollect.web.pages import page, see_other

PER_PAGE = 50
WORKSPACES_PER_PAGE = 20
STATES: tuple[DeliveryState, ...] = get_args(DeliveryState)
MANAGERS = frozenset({"owner", "admin"})

router = APIRouter(include_in_schema=False)
M = TypeVar("M", bound=BaseModel)

Cursor = Annotated[str | None, Query(max_length=4_400)]
# As long as they come: the models say, in words, what is too long.
Field = Annotated[str, Form()]
Ticked = Annotated[list[str], Form(default_factory=list)]
Hours = Annotated[Literal["1", "24", "168", "720"], Form()]


@dataclass(frozen=True)
class Place:
    """A webhook, and where it was found."""

    tx: Transaction
    me: Me
    workspace: Workspace
    endpoint: Endpoint

    @property
    def ids(self) -> tuple[Transaction, UUID, UUID]:
        return self.tx, self.workspace.id, self.endpoint.id


@asynccontextmanager
async def _acting(request: Request, needs: str) -> AsyncIterator[tuple[Transaction, Me]]:
    recollect = services(request)
    caller = await caller_of(request)
    async with recollect.tenancy.acting_as(caller.needing(needs)) as tx:
        yield tx, await recollect.access.me(tx)


@asynccontextmanager
async def _at(request: Request, webhook_id: UUID, needs: str) -> AsyncIterator[Place]:
    """The webhook of that id in one of the caller's workspaces."""
    recollect = services(request)
    async with _acting(request, needs) as (tx, me):
        endpoint = await recollect.webhooks.find(tx, webhook_id)
        workspace = await recollect.membership.workspace(tx, endpoint.workspace_id)
        yield Place(tx, me, workspace, endpoint)


@router.get("/webhooks")
async def webhooks(request: Request, cursor: Cursor = None) -> Response:
    try:
        return await _list_page(request, cursor=cursor)
    except NotSignedIn:
        return see_other("/sign-in")
    except InvalidCursor:
        return see_other("/webhooks")


@router.post("/webhooks")
async def add(
    request: Request,
    recollect: Recollect,
    workspace: Annotated[Id, Form()],
    types: Ticked,
    url: Field = "",
    description: Field = "",
) -> Response:
    typed = {"url": url.strip(), "types": types, "description": description.strip()}
    try:
        try:
            wanted = _valid(NewEndpoint, **{**typed, "description": typed["description"] or None})
            looked_up = await _look_up(request, workspace, wanted.url)
            async with _acting(request, "webhooks:write") as (tx, _):
                made = await recollect.webhooks.create(tx, workspace, wanted, looked_up=looked_up)
        except (InvalidInput, NotAllowed, NotFound, Conflict) as refusal:
            return await _list_page(request, refusal, {**typed, "workspace": workspace})
        # Not sent elsewhere to look at it: the secret is in this answer and in no other.
        return await _webhook_page(request, made.id, secret=made.secret)
    except NotSignedIn:
        return see_other("/sign-in")


@router.get("/webhooks/{webhook_id}")
async def webhook(
    request: Request, webhook_id: Id, state: DeliveryState | None = None, cursor: Cursor = None
) -> Response:
    try:
        return await _webhook_page(request, webhook_id, state=state, cursor=cursor)
    except NotSignedIn:
        return see_other("/sign-in")
    except InvalidCursor:
        return see_other(_address(webhook_id, state=state or ""))


@router.post("/webhooks/{webhook_id}")
async def change(
    request: Request,
    recollect: Recollect,
    webhook_id: Id,
    types: Ticked,
    url: Field = "",
    description: Field = "",
) -> Response:
    typed = {"url": url.strip(), "types": types, "description": description.strip()}

    looked_up: str | None = None

    async def prepare() -> None:
        nonlocal looked_up
        wanted = _valid(EndpointChange, **typed)
        async with _at(request, webhook_id, "webhooks:write") as place:
            workspace_id = place.workspace.id
        looked_up = await _look_up(request, workspace_id, wanted.url or "", webhook_id)

    async def work(place: Place) -> None:
        wanted = _valid(EndpointChange, **typed)
        await recollect.webhooks.change(*place.ids, wanted, looked_up=looked_up)

    return await _change(request, webhook_id, work, typed, prepare=prepare)


@router.post("/webhooks/{webhook_id}/enable")
async def enable(request: Request, recollect: Recollect, webhook_id: Id) -> Response:
    wanted = EndpointChange(is_enabled=True)
    return await _change(request, webhook_id, lambda place: recollect.webhooks.change(*place.ids, wanted))


@router.post("/webhooks/{webhook_id}/disable")
async def disable(request: Request, recollect: Recollect, webhook_id: Id) -> Response:
    wanted = EndpointChange(is_enabled=False)
    return await _change(request, webhook_id, lambda place: recollect.webhooks.change(*place.ids, wanted))


@router.post("/webhooks/{webhook_id}/test")
async def send_test(request: Request, recollect: Recollect, webhook_id: Id) -> Response:
    return await _change(request, webhook_id, lambda place: recollect.webhooks.test(*place.ids))


@router.post("/webhooks/{webhook_id}/delete")
async def delete(request: Request, recollect: Recollect, webhook_id: Id) -> Response:
    return await _change(
        request, webhook_id, lambda place: recollect.webhooks.remove(*place.ids), then="/webhooks"
    )


@router.post("/webhooks/{webhook_id}/secret")
async def rotate_secret(request: Request, recollect: Recollect, webhook_id: Id) -> Response:
    secrets: list[str] = []

    async def work(place: Place) -> None:
        secrets.append((await recollect.webhooks.rotate_secret(*place.ids)).secret)

    answer = await _change(request, webhook_id, work)
    return await _webhook_page(request, webhook_id, secret=secrets[0]) if secrets else answer


@router.post("/webhooks/{webhook_id}/replay")
async def replay_failed(
    request: Request, recollect: Recollect, webhook_id: Id, hours: Hours = "24"
) -> Response:
    since = datetime.now(UTC) - timedelta(hours=int(hours))
    return await _change(
        request, webhook_id, lambda place: recollect.webhooks.replay_failed(*place.ids, since)
    )


@router.post("/webhooks/{webhook_id}/deliveries/{delivery_id}/replay")
async def replay(request: Request, recollect: Recollect, webhook_id: Id, delivery_id: Id) -> Response:
    return await _change(
        request, webhook_id, lambda place: recollect.webhooks.replay(*place.ids, delivery_id)
    )


@router.get("/webhooks/{webhook_id}/{action:path}")
async def look_again(webhook_id: Id, action: str) -> Response:
    """Where a refused form or a new secret was shown there is nothing to come back to."""
    del action
    return see_other(_address(webhook_id))


async def _look_up(request: Request, workspace_id: UUID, url: str, webhook_id: UUID | None = None) -> str:
    """Before the transaction: a look-up in the DNS can take seconds, and would keep a connection waiting."""
    recollect = services(request)
    caller = (await caller_of(request)).needing("webhooks:write")
    return await recollect.webhooks.look_up(recollect.tenancy, caller, workspace_id, url, webhook_id)


async def _change(
    request: Request,
    webhook_id: UUID,
    work: Callable[[Place], Awaitable[Any]],
    typed: dict[str, Any] | None = None,
    *,
    prepare: Callable[[], Awaitable[None]] | None = None,
    then: str | None = None,
) -> Response:
    """Do it, and show the webhook; or show the webhook and why not."""
    try:
        try:
            if prepare is not None:
                await prepare()
            async with _at(request, webhook_id, "webhooks:write") as place:
                await work(place)
        except (InvalidInput, NotAllowed, NotFound, Conflict) as refusal:
            return await _webhook_page(request, webhook_id, refusal=refusal, typed=typed)
    except NotSignedIn:
        return see_other("/sign-in")
    return see_other(then or _address(webhook_id))


async def _list_page(
    request: Request,
    refusal: RecollectError | None = None,
    typed: dict[str, Any] | None = None,
    *,
    cursor: str | None = None,
) -> Response:
    recollect = services(request)
    async with _acting(request, "webhooks:read") as (tx, me):

        async def fetch(after: list[Any] | None, limit: int) -> list[Workspace]:
            return await recollect.membership.workspaces(tx, after=after, limit=limit)

        listing = Listing[Workspace](
            recollect.cursors,
            ("webhooks page", str(me.id)),
            lambda workspace: [workspace.created_at.isoformat(), str(workspace.id)],
        )
        found = await listing.page(PageQuery(limit=WORKSPACES_PER_PAGE, cursor=cursor), fetch)
        told = [(each, await recollect.webhooks.endpoints(tx, each.id)) for each in found["data"]]
    return page(
        request,
        "webhooks.html",
        status=refusal.status if refusal else 200,
        me=me,
        workspaces=told,
        managed=[each for each, _ in told if each.role in MANAGERS],
        more=found.get("nextCursor"),
        families=GROUPS,
        problem=refusal.detail if refusal else None,
        typed=typed or {"types": ["*"]},
        is_open=typed is not None or not any(endpoints for _, endpoints in told),
    )


async def _webhook_page(
    request: Request,
    webhook_id: UUID,
    *,
    state: DeliveryState | None = None,
    cursor: str | None = None,
    secret: str | None = None,
    refusal: RecollectError | None = None,
    typed: dict[str, Any] | None = None,
) -> Response:
    try:
        async with _at(request, webhook_id, "webhooks:read") as place:
            found = await _deliveries(services(request), place, state, cursor)
    except UnknownWebhook as unknown:
        async with _acting(request, "webhooks:read") as (_, me):
            return page(request, "webhook.html", status=unknown.status, me=me, endpoint=None)
    older = found.get("nextCursor")
    return page(
        request,
        "webhook.html",
        status=refusal.status if refusal else 200,
        me=place.me,
        workspace=place.workspace,
        endpoint=place.endpoint,
        is_manager=place.workspace.role in MANAGERS,
        deliveries=found["data"],
        older=_address(webhook_id, state=state or "", cursor=older) if older else None,
        address=lambda **query: _address(webhook_id, **query),
        state=state,
        states=STATES,
        json=lambda payload: json.dumps(payload, ensure_ascii=False, indent=2),
        families=GROUPS,
        secret=secret,
        problem=refusal.detail if refusal else None,
        typed=typed or place.endpoint.model_dump(),
        is_open=typed is not None,
    )


async def _deliveries(
    recollect: Services, place: Place, state: DeliveryState | None, cursor: str | None
) -> dict[str, Any]:
    async def fetch(after: list[Any] | None, limit: int) -> list[Delivery]:
        before = after[0] if after else None
        return await recollect.webhooks.deliveries(*place.ids, state=state, before=before, limit=limit)

    listing = Listing[Delivery](
        recollect.cursors,
        ("webhook page", str(place.endpoint.id), state or ""),
        lambda delivery: [delivery.position],
    )
    return await listing.page(PageQuery(limit=PER_PAGE, cursor=cursor), fetch)


def _valid(model: type[M], **typed: Any) -> M:
    try:
        return model(**typed)
    except ValidationError as error:
        found = error.errors()[0]
        if found["loc"] == ("types",):
            raise InvalidInput("Choose at least one event, or all.") from error
        raise InvalidInput(f"{found['loc'][0]}: {found['msg']}.") from error


def _address(webhook_id: UUID, **query: str) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"/webhooks/{webhook_id}" + (f"?{urlencode(given)}" if given else "")
