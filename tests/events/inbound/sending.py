"""Webhooks as Stripe and mem0 send them."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any
from uuid import uuid4

import httpx

STRIPE = "/api/webhooks/stripe"
MEM0 = "/api/webhooks/mem0"
STRIPE_SECRET = "whsec_of_the_tests_1f4a7c"
MEM0_SECRET = "mem0 secret of the tests, 9d2b"


def checkout(user: object, *, kind: str = "checkout.session.completed", **session: Any) -> dict[str, Any]:
    """An event about a paid checkout session."""
    details = {"object": "checkout.session", "client_reference_id": user, "payment_status": "paid"}
    return event(kind, {**details, "mode": "subscription", "metadata": {}, **session})


def event(kind: str, about: object) -> dict[str, Any]:
    return {
        "id": f"evt_{uuid4().hex}",
        "object": "event",
        "api_version": "2026-10-28",
        "created": int(time.time()),
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": None, "idempotency_key": None},
        "type": kind,
        "data": {"object": about},
    }


def mac(body: bytes, stamp: int, secret: str = STRIPE_SECRET) -> str:
    return hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()


def signature(body: bytes, *, secret: str = STRIPE_SECRET, age: int = 0) -> str:
    """The header that Stripe sends with a body."""
    stamp = int(time.time()) - age
    return f"t={stamp},v1={mac(body, stamp, secret)},v0={'0' * 64}"


async def send_stripe(
    http: httpx.AsyncClient, sent: dict[str, Any] | bytes, header: str | None = None
) -> httpx.Response:
    """Deliver an event, signed rightly unless another header is given."""
    body = sent if isinstance(sent, bytes) else json.dumps(sent, indent=2).encode()
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Stripe-Signature": signature(body) if header is None else header,
    }
    return await http.post(STRIPE, content=body, headers=headers)


def change(verb: str, memory_id: str, memory: str = "Likes tea", **more: Any) -> dict[str, Any]:
    return {"event_details": {"id": memory_id, "data": {"memory": memory}, "event": verb, **more}}


async def send_mem0(http: httpx.AsyncClient, sent: dict[str, Any], **headers: str) -> httpx.Response:
    """Deliver a change, with the right secret unless other headers are given."""
    return await http.post(MEM0, json=sent, headers=headers or {"Authorization": f"Bearer {MEM0_SECRET}"})
