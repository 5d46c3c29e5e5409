"""What can be done with webhooks; the only door to them.

Nothing here decides who may do what: row security does. What a caller cannot see is not found; what
the caller's role does not allow is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from psycopg.rows import DictRow

from recollect.access.roles import RoleTooLow, if_role_allows
from recollect.db.tenancy import SERVICE, Caller, Tenancy, Transaction
from recollect.errors import Conflict, NotFound
from recollect.events.webhooks.addresses import AddressRefused, LookUps, Resolver, checked
from recollect.events.webhooks.models import (
    Delivery,
    DeliveryState,
    Endpoint,
    EndpointChange,
    EndpointWithSecret,
    NewEndpoint,
)
from recollect.events.webhooks.sending import new_secret
from recollect.events.webhooks.store import SecretBox, queries

PAGE = 1_000
MAX_ENDPOINTS = 50
# Somebody waits for the answer.
LOOK_UP_SECONDS = 5
KEPT = timedelta(days=30)
PURGE_BATCH = 5_000
# When the last row of the page before was made, and its id.
After = Sequence[str] | None

# Apart from those of deliveries, which must not wait for whatever people type.
_look_ups = LookUps()


class UnknownWebhook(NotFound):
    """There is no such webhook in this workspace."""

    code = "unknown_webhook"


class UnknownDelivery(NotFound):
    """There is no such delivery to this webhook."""

    code = "unknown_delivery"


class TooManyWebhooks(Conflict):
    """A workspace has at most 50 webhooks; remove one first."""

    code = "too_many_webhooks"


class Webhooks:
    def __init__(self, box: SecretBox, *, allow_private: bool, resolver: Resolver = _look_ups) -> None:
        self._box = box
        self._allow_private = allow_private
        self._resolver = resolver

    # Endpoints

    async def endpoints(
        self, tx: Transaction, workspace_id: UUID, *, after: After = None, limit: int = PAGE
    ) -> list[Endpoint]:
        """A workspace's endpoints, oldest first."""
        await self._see(tx, workspace_id)
        moment, row_id = after or (None, None)
        parameters = {"workspace_id": workspace_id, "after": moment, "after_id": row_id, "limit": limit}
        return [Endpoint(**row) for row in await tx.all(queries.list_endpoints, parameters, last=True)]

    async def endpoint(self, tx: Transaction, workspace_id: UUID, endpoint_id: UUID) -> Endpoint:
        place = {"workspace_id": workspace_id, "id": endpoint_id}
        row = await tx.maybe(queries.get_endpoint, place)
        if row is None:
            raise UnknownWebhook
        return Endpoint(**row)

    async def find(self, tx: Transaction, endpoint_id: UUID) -> Endpoint:
        """An endpoint of whichever of the caller's workspaces has it."""
        row = await tx.maybe(queries.find_endpoint, {"id": endpoint_id})
        if row is None:
            raise UnknownWebhook
        return Endpoint(**row)

    async def look_up(
        self,
        tenancy: Tenancy,
        caller: Caller,
        workspace_id: UUID,
        url: str,
        endpoint_id: UUID | None = None,
    ) -> str:
        """Check where a new endpoint, or this one, is to lead, before there is a transaction that would keep
        a connection waiting. Give the answer to ``create`` or ``change``, which else see to it themselves."""
        # The server looks up names for nobody but those who may have it send something.
        async with tenancy.acting_as(caller) as tx:
            before = await self.endpoint(tx, workspace_id, endpoint_id) if endpoint_id else None
            await self._manage(tx, workspace_id)
        if before is None or url != before.url:
            await self._check(url)
        return url

    async def create(
        self, tx: Transaction, workspace_id: UUID, wanted: NewEndpoint, *, looked_up: str | None = None
    ) -> EndpointWithSecret:
        """A new endpoint, with the secret that its deliveries are signed with."""
        await self._manage(tx, workspace_id, adding=True)
        if wanted.url != looked_up:
            await self._check(wanted.url)
        endpoint_id, secret = uuid4(), new_secret()
        parameters = {
            **wanted.model_dump(),
            "id": endpoint_id,
            "workspace_id": workspace_id,
            "sealed_secret": self._box.seal(endpoint_id, secret),
        }
        row = await if_role_allows(tx, queries.add_endpoint, parameters)
        return EndpointWithSecret(**row, secret=secret)

    async def change(
        self,
        tx: Transaction,
        workspace_id: UUID,
        endpoint_id: UUID,
        wanted: EndpointChange,
        *,
        looked_up: str | None = None,
    ) -> Endpoint:
        before = await self.endpoint(tx, workspace_id, endpoint_id)
        await self._manage(tx, workspace_id)
        if wanted.url is not None and wanted.url not in (before.url, looked_up):
            await self._check(wanted.url)
        parameters = {**wanted.model_dump(), "workspace_id": workspace_id, "id": endpoint_id}
        return Endpoint(**await if_role_allows(tx, queries.change_endpoint, parameters))

    async def rotate_secret(
        self, tx: Transaction, workspace_id: UUID, endpoint_id: UUID
    ) -> EndpointWithSecret:
        """Another secret. For a day deliveries are signed with the former one too."""
        await self.endpoint(tx, workspace_id, endpoint_id)
        secret = new_secret()
        parameters = {
            "workspace_id": workspace_id,
            "id": endpoint_id,
            "sealed_secret": self._box.seal(endpoint_id, secret),
        }
        row = await if_role_allows(tx, queries.change_secret, parameters)
        return EndpointWithSecret(**row, secret=secret)

    async def remove(self, tx: Transaction, workspace_id: UUID, endpoint_id: UUID) -> None:
        """Remove an endpoint; what was on its way there is not sent any more."""
        await self.endpoint(tx, workspace_id, endpoint_id)
        place = {"workspace_id": workspace_id, "id": endpoint_id}
        await if_role_allows(tx, queries.remove_endpoint, place)

    async def test(self, tx: Transaction, workspace_id: UUID, endpoint_id: UUID) -> Endpoint:
        """Send the event ``webhook.test`` to this endpoint, whatever else it hears of."""
        found = await self.endpoint(tx, workspace_id, endpoint_id)
        await self._manage(tx, workspace_id)
        await tx.run(queries.test_endpoint, {"id": endpoint_id})
        return found

    # Deliveries

    async def deliveries(
        self,
        tx: Transaction,
        workspace_id: UUID,
        endpoint_id: UUID,
        *,
        state: DeliveryState | None = None,
        before: int | None = None,
        limit: int = PAGE,
    ) -> list[Delivery]:
        """What was sent or is to be sent to an endpoint, the newest first."""
        await self.endpoint(tx, workspace_id, endpoint_id)
        parameters = {"endpoint_id": endpoint_id, "state": state, "before": before, "limit": limit}
        return [Delivery(**row) for row in await tx.all(queries.list_deliveries, parameters, last=True)]

    async def delivery(
        self, tx: Transaction, workspace_id: UUID, endpoint_id: UUID, delivery_id: UUID
    ) -> Delivery:
        await self.endpoint(tx, workspace_id, endpoint_id)
        row = await tx.maybe(queries.get_delivery, {"endpoint_id": endpoint_id, "id": delivery_id})
        if row is None:
            raise UnknownDelivery
        return Delivery(**row)

    async def replay(
        self, tx: Transaction, workspace_id: UUID, endpoint_id: UUID, delivery_id: UUID
    ) -> Delivery:
        """Send a delivery again under the same id; one that still waits is tried at once."""
        await self.delivery(tx, workspace_id, endpoint_id, delivery_id)
        await self._manage(tx, workspace_id)
        await tx.run(queries.replay, {"endpoint_id": endpoint_id, "id": delivery_id, "since": None})
        return await self.delivery(tx, workspace_id, endpoint_id, delivery_id)

    async def replay_failed(
        self, tx: Transaction, workspace_id: UUID, endpoint_id: UUID, since: datetime
    ) -> int:
        """Send all again that failed since that moment; says how many."""
        await self.endpoint(tx, workspace_id, endpoint_id)
        await self._manage(tx, workspace_id)
        row = await tx.one(queries.replay, {"endpoint_id": endpoint_id, "id": None, "since": since})
        replayed: int = row["replayed"]
        return replayed

    async def purge(self, tenancy: Tenancy) -> int:
        """Forget deliveries that ended more than a month ago."""
        purged, gone = 0, PURGE_BATCH
        while gone == PURGE_BATCH:
            async with tenancy.acting_as(SERVICE) as tx:
                gone = await tx.run(queries.purge_deliveries, {"age": KEPT, "batch": PURGE_BATCH}, last=True)
            purged += gone
        return purged

    async def _see(self, tx: Transaction, workspace_id: UUID) -> DictRow:
        return await tx.one(queries.role_in_workspace, {"workspace_id": workspace_id})

    async def _manage(self, tx: Transaction, workspace_id: UUID, *, adding: bool = False) -> None:
        found = await self._see(tx, workspace_id)
        if not found["is_manager"]:
            raise RoleTooLow
        if adding and found["endpoints"] >= MAX_ENDPOINTS:
            raise TooManyWebhooks

    async def _check(self, url: str) -> None:
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                await checked(url, allow_private=self._allow_private, resolver=self._resolver)
        except TimeoutError as error:
            raise AddressRefused("Looking up that name takes too long; check the address.") from error
