"""Stripe: is it really from them, and what did they sell to whom."""

from __future__ import annotations

import asyncio
from uuid import UUID

from recollect.errors import MalformedRequest
from recollect.events.inbound.models import CheckoutSession, StripeEvent, read
from recollect.kit.text import strict_json

TOLERANCE_SECONDS = 300

# The second comes where a payment takes days, after a first that said "unpaid".
SALES = frozenset({"checkout.session.completed", "checkout.session.async_payment_succeeded"})


class InvalidSignature(MalformedRequest):
    """The Stripe-Signature header is missing or does not fit the body; check STRIPE_WEBHOOK_SECRET."""

    code = "invalid_signature"


class StaleSignature(MalformedRequest):
    """This was signed more than five minutes ago; if it was sent just now, check this server's clock."""

    code = "stale_signature"


async def verified(body: bytes, signature: str | None, secret: str) -> StripeEvent:
    """The event in a body whose signature holds. The body must be as it was sent, byte by byte."""
    # In a thread, because the first call loads Stripe's library, which takes its time.
    await asyncio.to_thread(_verify, body, signature or "", secret)
    return read(StripeEvent, strict_json(body))


def _verify(body: bytes, signature: str, secret: str) -> None:
    # Late: most servers never hear from Stripe, and its library is half a second of start-up.
    from stripe import SignatureVerificationError, WebhookSignature  # noqa: PLC0415 - see above

    def holds(tolerance: int | None) -> bool:
        try:
            WebhookSignature.verify_header(body, signature, secret, tolerance)
        except (SignatureVerificationError, UnicodeDecodeError):
            return False
        return True

    # The library compares text in constant time, which Python refuses beyond ASCII.
    if not signature.isascii() or not holds(None):
        raise InvalidSignature
    if not holds(TOLERANCE_SECONDS):
        raise StaleSignature


def session_in(event: StripeEvent) -> CheckoutSession:
    return read(CheckoutSession, event.data.get("object"))


def user_id_in(session: CheckoutSession) -> UUID | None:
    """The user a session names, if that is an id of ours."""
    try:
        found = UUID(session.user or "")
    except ValueError:
        return None
    # Python also takes braces, "urn:uuid:" and no hyphens at all.
    return found if str(found) == (session.user or "").lower() else None
