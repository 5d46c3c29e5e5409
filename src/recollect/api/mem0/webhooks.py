"""mem0's endpoints for webhooks, which are those of a workspace here. They are sent what all of them are:
signed by the Standard Webhooks scheme, and without what the memory says, which the receiver can read."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from pydantic import BaseModel, Field

from recollect.api.mem0.routing import new_router, project_in
from recollect.api.mem0.shapes import HEARD, of_webhook
from recollect.db.tenancy import Transaction
from recollect.errors import InvalidInput
from recollect.events.webhooks.models import Description, EndpointChange, NewEndpoint, Url
from recollect.http.callers import Id, Recollect
from recollect.http.routing import transaction

OF_PROJECT = "/api/v1/webhooks/projects/{project_id}/"
ONE = "/api/v1/webhooks/{webhook_id}/"

router = new_router()
Reading = Annotated[Transaction, transaction("webhooks:read")]
Writing = Annotated[Transaction, transaction("webhooks:write")]
ProjectId = Annotated[str, Path(max_length=100)]
WebhookId = Annotated[Id, Path()]
Heard = Annotated[list[str], Field(min_length=1, max_length=20)]


class NewWebhook(BaseModel):
    url: Url
    name: Description
    event_types: Heard


class WebhookChange(BaseModel):
    url: Url | None = None
    name: Description | None = None
    event_types: Heard | None = None
    is_active: bool | None = None


def _types(given: list[str] | None) -> list[str] | None:
    if given is None:
        return None
    unknown = [one for one in given if one not in HEARD]
    if unknown:
        known = ", ".join(HEARD)
        raise InvalidInput(f"event_types: {unknown[0][:100]} never happens here; there are {known}.")
    return [HEARD[one] for one in dict.fromkeys(given)]


@router.get(OF_PROJECT)
async def list_webhooks(project_id: ProjectId, tx: Reading, recollect: Recollect) -> Any:
    found = await recollect.webhooks.endpoints(tx, project_in(project_id))
    return [of_webhook(one) for one in found]


@router.post(OF_PROJECT, status_code=201)
async def create_webhook(project_id: ProjectId, wanted: NewWebhook, tx: Writing, recollect: Recollect) -> Any:
    project = project_in(project_id)
    endpoint = NewEndpoint(url=wanted.url, types=_types(wanted.event_types) or [], description=wanted.name)
    # Before this request's own transaction takes a connection.
    looked_up = await recollect.webhooks.look_up(recollect.tenancy, tx.caller, project, wanted.url)
    return of_webhook(await recollect.webhooks.create(tx, project, endpoint, looked_up=looked_up))


@router.put(ONE)
async def change_webhook(
    webhook_id: WebhookId, wanted: WebhookChange, tx: Writing, recollect: Recollect
) -> Any:
    change = EndpointChange(
        url=wanted.url,
        types=_types(wanted.event_types),
        description=wanted.name,
        is_enabled=wanted.is_active,
    )
    async with recollect.tenancy.acting_as(tx.caller) as looking:
        found = await recollect.webhooks.find(looking, webhook_id)
    looked_up = None
    if wanted.url is not None:
        looked_up = await recollect.webhooks.look_up(
            recollect.tenancy, tx.caller, found.workspace_id, wanted.url, webhook_id
        )
    await recollect.webhooks.change(tx, found.workspace_id, webhook_id, change, looked_up=looked_up)
    return {"message": "Webhook updated successfully"}


@router.delete(ONE)
async def delete_webhook(webhook_id: WebhookId, tx: Writing, recollect: Recollect) -> Any:
    found = await recollect.webhooks.find(tx, webhook_id)
    await recollect.webhooks.remove(tx, found.workspace_id, webhook_id)
    return {"message": "Webhook deleted successfully"}
