"""Webhooks in: where Stripe and mem0 tell us what happened. They are not users, and prove it otherwise."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request

from recollect.events.inbound.models import Received
from recollect.http.callers import Recollect
from recollect.http.problems import responses
from recollect.http.routing import RecollectRoute

router = APIRouter(tags=["webhooks"], route_class=RecollectRoute)


def _takes(what: str) -> dict[str, Any]:
    """A body's description. FastAPI is not told of it: it would hand over the JSON and not the bytes."""
    schema = {"type": "object", "description": what}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


@router.post(
    "/api/webhooks/stripe",
    summary="Take an event from Stripe.",
    description="A paid checkout session makes its user premium; a repeated one does nothing.",
    response_model=Received,
    response_model_exclude_none=True,
    responses=responses(404, 409, 503),
    openapi_extra=_takes("An event, as Stripe sends it."),
)
async def stripe(
    request: Request,
    recollect: Recollect,
    signature: Annotated[
        str | None, Header(alias="Stripe-Signature", description="Stripe's, not older than five minutes.")
    ] = None,
) -> Any:
    return await recollect.inbound.from_stripe(await request.body(), signature)


@router.post(
    "/api/webhooks/mem0",
    summary="Take a change of a memory from mem0.",
    description=(
        'Takes the secret MEM0_WEBHOOK_SECRET as "Authorization: Bearer ...", as the password of '
        '"Authorization: Basic ..." (https://mem0:SECRET@..., where only an address can be given), or as '
        '"X-Webhook-Secret: ...".'
    ),
    response_model=Received,
    response_model_exclude_none=True,
    responses=responses(401, 404, 503),
    openapi_extra=_takes('A change, as mem0 sends it: {"event_details": {"id", "event", "data"}}.'),
)
async def mem0(
    request: Request,
    recollect: Recollect,
    secret: Annotated[
        str | None, Header(alias="X-Webhook-Secret", description="The secret, if not in Authorization.")
    ] = None,
) -> Any:
    presented = _secret_in(request) if secret is None else _bytes_of(secret)
    return await recollect.inbound.from_mem0(await request.body(), presented)


def _secret_in(request: Request) -> bytes | None:
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    match scheme.lower():
        case "bearer":
            return _bytes_of(credential)
        case "basic":
            try:
                return base64.b64decode(_bytes_of(credential), validate=True).partition(b":")[2]
            except binascii.Error:
                return None
        case _:
            return None


def _bytes_of(header: str) -> bytes:
    # As they came over the wire, where they are not necessarily Latin-1.
    return header.encode("latin-1", "replace")
