"""recollect webhooks: who is told what happens. Everything is done as the user named would do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar, cast
from uuid import UUID

import typer

from recollect.cli.console import AsJson, acting_for, fail, out, show, show_all, validated, with_services
from recollect.events.webhooks.models import (
    Delivery,
    Endpoint,
    EndpointChange,
    EndpointWithSecret,
    NewEndpoint,
    Replayed,
)

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction
    from recollect.events.webhooks.models import DeliveryState
    from recollect.events.webhooks.service import Webhooks

T = TypeVar("T")
SHOWN = 50

app = typer.Typer(help="Webhooks of a workspace, and their deliveries.", no_args_is_help=True)

Actor = Annotated[str, typer.Option("--user", metavar="EMAIL", help="Who does it.")]
WorkspaceId = Annotated[UUID, typer.Argument(metavar="WORKSPACE")]
WebhookId = Annotated[UUID, typer.Argument(metavar="WEBHOOK")]
Url = Annotated[str, typer.Argument(metavar="URL", help="Where to send to: public and https.")]
Types = Annotated[
    list[str] | None, typer.Option("--type", help='Event to hear of, such as "bank.*"; repeatable.')
]
State = Annotated[str | None, typer.Option(help="pending, delivered or failed.")]
Description = Annotated[str | None, typer.Option(help="What it is for.")]
DeliveryId = Annotated[UUID | None, typer.Option("--delivery", metavar="ID", help="This one alone.")]
Hours = Annotated[float, typer.Option(min=0, max=24 * 365, help="All that failed in so many hours.")]


@app.command("list")
def list_(workspace: WorkspaceId, user: Actor, as_json: AsJson = False) -> None:
    """List a workspace's webhooks."""

    async def fetch(webhooks: Webhooks, tx: Transaction) -> list[Endpoint]:
        return await webhooks.endpoints(tx, workspace)

    columns = ("url", "types", "is_enabled", "disabled_reason", "failing_since", "id")
    show_all(_as(user, fetch), columns, as_json=as_json)


@app.command()
def add(
    workspace: WorkspaceId,
    url: Url,
    user: Actor,
    types: Types = None,
    description: Description = None,
    as_json: AsJson = False,
) -> None:
    """Add a webhook; prints the secret that its deliveries are signed with, once."""
    wanted = validated(NewEndpoint, url=url, types=types or ["*"], description=description)

    async def create(webhooks: Webhooks, tx: Transaction) -> EndpointWithSecret:
        return await webhooks.create(tx, workspace, wanted)

    show(_as(user, create), as_json=as_json)


@app.command()
def remove(workspace: WorkspaceId, webhook: WebhookId, user: Actor) -> None:
    """Remove a webhook and the log of its deliveries."""
    _as(user, lambda webhooks, tx: webhooks.remove(tx, workspace, webhook))
    out.print("The webhook is removed.")


@app.command()
def enable(workspace: WorkspaceId, webhook: WebhookId, user: Actor, as_json: AsJson = False) -> None:
    """Enable a webhook that was disabled; it gets what still waits for it."""
    wanted = EndpointChange(is_enabled=True)
    show(_as(user, lambda webhooks, tx: webhooks.change(tx, workspace, webhook, wanted)), as_json=as_json)


@app.command("test")
def send_test(workspace: WorkspaceId, webhook: WebhookId, user: Actor, as_json: AsJson = False) -> None:
    """Send the event webhook.test; "deliveries" shows what became of it."""
    show(_as(user, lambda webhooks, tx: webhooks.test(tx, workspace, webhook)), as_json=as_json)


@app.command()
def deliveries(
    workspace: WorkspaceId, webhook: WebhookId, user: Actor, state: State = None, as_json: AsJson = False
) -> None:
    """List the last deliveries, the newest first."""
    if state not in {None, "pending", "delivered", "failed"}:
        fail("state: pending, delivered or failed.")

    async def fetch(webhooks: Webhooks, tx: Transaction) -> list[Delivery]:
        return await webhooks.deliveries(
            tx, workspace, webhook, state=cast("DeliveryState | None", state), limit=SHOWN
        )

    columns = ("type", "state", "attempt", "last_status", "last_error", "next_attempt_at", "created_at", "id")
    show_all(_as(user, fetch), columns, as_json=as_json)


@app.command()
def replay(
    workspace: WorkspaceId,
    webhook: WebhookId,
    user: Actor,
    delivery: DeliveryId = None,
    hours: Hours = 24,
    as_json: AsJson = False,
) -> None:
    """Send one delivery again, or all that failed in the last hours."""

    async def again(webhooks: Webhooks, tx: Transaction) -> Replayed:
        if delivery is not None:
            await webhooks.replay(tx, workspace, webhook, delivery)
            return Replayed(replayed=1)
        since = datetime.now(UTC) - timedelta(hours=hours)
        return Replayed(replayed=await webhooks.replay_failed(tx, workspace, webhook, since))

    show(_as(user, again), as_json=as_json)


def _as(user: str, work: Callable[[Webhooks, Transaction], Awaitable[T]]) -> T:
    async def run(services: Services) -> T:
        async with acting_for(services, user) as (tx, _):
            return await work(services.webhooks, tx)

    return with_services(run)
