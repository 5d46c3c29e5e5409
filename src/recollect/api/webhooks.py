"""Webhooks: the endpoints of a workspace, and what was delivered to them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field

from recollect.db.tenancy import Transaction
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
from recollect.http.callers import Id, Recollect
from recollect.http.paging import Listing, Page, PageQuery
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute, idempotent, transaction

router = APIRouter(
    prefix="/api/workspaces/{workspaceId}/webhooks", tags=["webhooks"], route_class=RecollectRoute
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
    workspace_id: WorkspaceId, wanted: NewEndpoint, tx: Writing, recollect: Recollect
) -> Any:
    return await recollect.webhooks.create(tx, workspace_id, wanted)


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
    return await recollect.webhooks.change(tx, workspace_id, webhook_id, wanted)


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
