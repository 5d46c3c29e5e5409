"""What happens when others tell us something; the only door for webhooks in."""

from __future__ import annotations

from datetime import timedelta

from pydantic import SecretStr

from recollect.db.tenancy import SERVICE, Tenancy, Transaction
from recollect.errors import Conflict, NotFound, RecollectError
from recollect.events.inbound import mem0, store, stripe
from recollect.events.inbound.models import Mem0Event, Received, StripeEvent
from recollect.kit.logs import logger
from recollect.kit.secret import fingerprint

# Stripe repeats by itself for three days; people press "resend" for a month.
REMEMBERED = timedelta(days=90)
# Without ids, the same words about a memory are a repetition for this long.
REPEATED_WITHIN = timedelta(days=1)
FORGET_BATCH = 5_000

log = logger("inbound")


class NotConfigured(NotFound):
    """This server takes no such webhooks."""

    code = "webhook_not_configured"


class NoProfile(Conflict):
    """The user who paid has no row in "profiles", and this project's table asks for more than we know.

    Nothing was recorded: the sender tries again, and by then the project may have made the profile.
    """

    code = "no_profile"


class Inbound:
    def __init__(
        self, tenancy: Tenancy, *, stripe_secret: SecretStr | None, mem0_secret: SecretStr | None
    ) -> None:
        self._tenancy = tenancy
        self._stripe_secret = stripe_secret
        self._mem0_secret = mem0_secret

    async def from_stripe(self, body: bytes, signature: str | None) -> Received:
        """A delivery of Stripe's: refused, or recorded together with its effect, once."""
        secret = _configured(self._stripe_secret, "STRIPE_WEBHOOK_SECRET")
        try:
            event = await stripe.verified(body, signature, secret)
            async with self._tenancy.acting_as(SERVICE) as tx:
                if await store.is_new(tx, "stripe", event.id):
                    answer = Received(ignored=await _sell(tx, event))
                else:
                    answer = Received(duplicate=True)
        except RecollectError as error:
            log.warning("a webhook was refused", source="stripe", code=error.code)
            raise
        told = answer.model_dump(exclude_none=True)
        log.info("a webhook was taken", source="stripe", id=event.id, type=event.type, **told)
        return answer

    async def from_mem0(self, body: bytes, presented: bytes | None) -> Received:
        """A delivery of mem0's: refused, or recorded together with the event that it becomes."""
        secret = _configured(self._mem0_secret, "MEM0_WEBHOOK_SECRET")
        try:
            mem0.check_secret(presented, secret)
            event = mem0.event_in(body)
            async with self._tenancy.acting_as(SERVICE) as tx:
                if await _is_news(tx, event, body):
                    answer = Received(ignored=await _pass_on(tx, event))
                else:
                    answer = Received(duplicate=True)
        except RecollectError as error:
            log.warning("a webhook was refused", source="mem0", code=error.code)
            raise
        told = answer.model_dump(exclude_none=True)
        log.info("a webhook was taken", source="mem0", type=event.verb, **told)
        return answer

    async def purge(self) -> int:
        """Forget what was received too long ago to come again, a bounded batch per transaction."""
        forgotten = 0
        while True:
            async with self._tenancy.acting_as(SERVICE, for_one_call=True) as tx:
                gone = await store.forget(tx, REMEMBERED, FORGET_BATCH)
            forgotten += gone
            if gone < FORGET_BATCH:
                return forgotten


def _configured(secret: SecretStr | None, setting: str) -> str:
    known = secret.get_secret_value().strip() if secret else ""
    if not known:  # what is blank would fit whatever nobody has sent
        raise NotConfigured(f"{NotConfigured.title()} Set {setting} to take them.")
    return known


async def _sell(tx: Transaction, event: StripeEvent) -> str | None:
    """Give the buyer what was bought; or say why not, where asking again would not help."""
    if event.type not in stripe.SALES:
        return "Events of this type are not used here."
    session = stripe.session_in(event)
    if not session.is_paid:
        return "The session is not paid."
    user_id = stripe.user_id_in(session)
    outcome = "unknown_user" if user_id is None else await store.make_premium(tx, user_id)
    if outcome == "no_profile":
        raise NoProfile
    if outcome == "unknown_user":
        # Stripe is content with this, but somebody has paid: a person should look. Perhaps the user is still
        # to come; when it is sent once more, it counts.
        await store.unrecord(tx, "stripe", event.id)
        log.warning("somebody paid who is no user here", source="stripe", id=event.id)
        return "Neither client_reference_id nor metadata.userId is the id of a user here."
    return None


async def _is_news(tx: Transaction, event: Mem0Event, body: bytes) -> bool:
    if event.event_id is not None:
        # One run at mem0 can change several memories, and has one id.
        parts = (event.event_id, event.verb, event.memory_id)
        sent_id = fingerprint(*(part.encode() for part in parts)).hex()
        return await store.is_new(tx, "mem0", f"event/{sent_id}")
    # Compared with the latest alone: who changes a memory to and fro says the same twice, and means it.
    subject = f"memory/{event.memory_id}"
    return await store.is_news(tx, "mem0", subject, fingerprint(body), REPEATED_WITHIN)


async def _pass_on(tx: Transaction, event: Mem0Event) -> str | None:
    kind = mem0.CHANGES.get(event.verb)
    if kind is None:
        return "Events of this type are not used here."
    data = {"source": "mem0", "memory_id": event.memory_id, "user_id": event.user_id}
    await store.publish(tx, kind, f"memory/{event.memory_id}", data)
    return None
