"""Webhooks: the endpoints of a workspace, and what was delivered to them."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import Field, TypeAdapter, ValidationError
from starlette.responses import Response

from recollect.db.tenancy import Transaction
from recollect.events.webhooks.addresses import AddressRefused
from recollect.events.webhooks.models import (
    Delivery,
    DeliveryState,
    Endpoint,
    EndpointChange,
    EndpointWithSecret,
    NewEndpoint,
    Replayed,
    ReplayFailed,
)
from recollect.http.callers import Id, Recollect, caller_for, services
from recollect.http.edge.body import ParsedRequest
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import Handler, RecollectRoute, idempotent, transaction

_id: TypeAdapter[UUID] = TypeAdapter(Id)


class WebhookRoute(RecollectRoute):
    """Looks up the address in the body before the request's transaction begins, where an endpoint asks for
    it. The endpoint itself could be too late: an Idempotency-Key has taken a connection by then."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        if all(each.call is not _looked_up for each in self.dependant.dependencies):
            return handle

        async def look_up_first(request: Request) -> Response:
            request.state.looked_up = await _look_up(request)
            return await handle(request)

        return look_up_first


async def _look_up(request: Request) -> str | AddressRefused | None:
    try:
        workspace_id = _id.validate_python(request.path_params["workspaceId"])
        wanted = NewEndpoint.model_validate(await ParsedRequest(request.scope, request.receive).json())
    except (KeyError, ValidationError):
        return None  # FastAPI says what is wrong with it
    caller, recollect = await caller_for(request, "webhooks:write"), services(request)
    try:
        return await recollect.webhooks.look_up(recollect.tenancy, caller, workspace_id, wanted.url)
    except AddressRefused as refusal:
        # Not yet: who repeats a request that went well is told so again, whatever became of the name.
        return refusal


async def _looked_up(request: Request) -> str | None:
    found: str | AddressRefused | None = request.state.looked_up
    if isinstance(found, AddressRefused):
        raise found
    return found


router = APIRouter(
    prefix="/api/workspaces/{workspaceId}/webhooks", tags=["webhooks"], route_class=WebhookRoute
)

Reading = Annotated[Transaction, transaction("webhooks:read")]
Writing = Annotated[Transaction, transaction("webhooks:write")]
WorkspaceId = Annotated[Id, Path(alias="workspaceId")]
WebhookId = Annotated[Id, Path(alias="webhookId")]
DeliveryId = Annotated[Id, Path(alias="deliveryId")]


class DeliveryQuery(PageQuery):
    state: Annotated[DeliveryState | None, Field(description="Only those in this state.")] = None


@router.get(
    "",
    summary="List a workspace's webhooks, oldest first.",
    response_model=Page[Endpoint],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_webhooks(
    workspace_id: WorkspaceId, wanted: Annotated[PageQuery, Query()], tx: Reading, recollect: Recollect
) -> Any:
    listing = Listing[Endpoint](
        recollect.cursors,
        ("webhooks", str(workspace_id)),
        lambda endpoint: [endpoint.created_at.isoformat(), str(endpoint.id)],
    )

    async def fetch(after: list[Any] | None, limit: int) -> list[Endpoint]:
        return await recollect.webhooks.endpoints(tx, workspace_id, after=after, limit=limit)

    return await listing.page(wanted, fetch)


@router.post(
    "",
    summary="Add a webhook (owners and admins); the answer holds its secret, once.",
    status_code=201,
    response_model=EndpointWithSecret,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def create_webhook(
    workspace_id: WorkspaceId,
    wanted: NewEndpoint,
    looked_up: Annotated[str | None, Depends(_looked_up)],
    tx: Writing,
    recollect: Recollect,
) -> Any:
    return await recollect.webhooks.create(tx, workspace_id, wanted, looked_up=looked_up)


@router.get("/{webhookId}", summary="Read one webhook.", response_model=Endpoint, responses=responses(404))
async def get_webhook(
    workspace_id: WorkspaceId, webhook_id: WebhookId, tx: Reading, recollect: Recollect
) -> Any:
    return await recollect.webhooks.endpoint(tx, workspace_id, webhook_id)


@router.patch(
    "/{webhookId}",
    summary="Change, enable or disable a webhook (owners and admins).",
    response_model=Endpoint,
    responses=responses(404, 409),
)
async def change_webhook(
    workspace_id: WorkspaceId,
    webhook_id: WebhookId,
    wanted: EndpointChange,
    tx: Writing,
    recollect: Recollect,
) -> Any:
    looked_up = None
    if wanted.url is not None:
        # Before this request's own transaction takes a connection.
        looked_up = await recollect.webhooks.look_up(
            recollect.tenancy, tx.caller, workspace_id, wanted.url, webhook_id
        )
    return await recollect.webhooks.change(tx, workspace_id, webhook_id, wanted, looked_up=looked_up)


@router.delete(
    "/{webhookId}",
    summary="Remove a webhook and the log of its deliveries (owners and admins).",
    status_code=204,
    responses=responses(404),
)
async def remove_webhook(
    workspace_id: WorkspaceId, webhook_id: WebhookId, tx: Writing, recollect: Recollect
) -> None:
    await recollect.webhooks.remove(tx, workspace_id, webhook_id)


@router.post(
    "/{webhookId}/secret",
    summary="Give a webhook another secret (owners and admins); for a day, both sign.",
    response_model=EndpointWithSecret,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def rotate_secret(
    workspace_id: WorkspaceId, webhook_id: WebhookId, tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.webhooks.rotate_secret(tx, workspace_id, webhook_id)


@router.post(
    "/{webhookId}/test",
    summary="Send a webhook the event webhook.test (owners and admins).",
    status_code=202,
    response_model=Endpoint,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def test_webhook(
    workspace_id: WorkspaceId, webhook_id: WebhookId, tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.webhooks.test(tx, workspace_id, webhook_id)


@router.post(
    "/{webhookId}/replay",
    summary="Send again all that failed since a moment (owners and admins).",
    status_code=202,
    response_model=Replayed,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def replay_failed(
    workspace_id: WorkspaceId,
    webhook_id: WebhookId,
    wanted: ReplayFailed,
    tx: Writing,
    recollect: Recollect,
) -> Any:
    replayed = await recollect.webhooks.replay_failed(tx, workspace_id, webhook_id, wanted.since)
    return Replayed(replayed=replayed)


@router.get(
    "/{webhookId}/deliveries",
    summary="List what was or is to be sent to a webhook, the newest first.",
    response_model=Page[Delivery],
    response_model_exclude_unset=True,
    responses=responses(404),
)
async def list_deliveries(
    workspace_id: WorkspaceId,
    webhook_id: WebhookId,
    wanted: Annotated[DeliveryQuery, Query()],
    tx: Reading,
    recollect: Recollect,
) -> Any:
    listing = Listing[Delivery](
        recollect.cursors,
        ("deliveries", str(workspace_id), str(webhook_id), wanted.state or ""),
        lambda delivery: [delivery.position],
    )

    async def fetch(before: list[Any] | None, limit: int) -> list[Delivery]:
        position = before[0] if before else None
        return await recollect.webhooks.deliveries(
            tx, workspace_id, webhook_id, state=wanted.state, before=position, limit=limit
        )

    return await listing.page(wanted, fetch)


@router.post(
    "/{webhookId}/deliveries/{deliveryId}/replay",
    summary="Send one delivery again, under the same id (owners and admins).",
    status_code=202,
    response_model=Delivery,
    responses=responses(404, 409),
    dependencies=[idempotent],
)
async def replay_delivery(
    workspace_id: WorkspaceId,
    webhook_id: WebhookId,
    delivery_id: DeliveryId,
    tx: Writing,
    recollect: Recollect,
) -> Any:
    return await recollect.webhooks.replay(tx, workspace_id, webhook_id, delivery_id)
