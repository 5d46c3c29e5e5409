"""recollect key: API keys for programs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from recollect.access.models import ApiKey, IssuedKey, NewKey
from recollect.cli.console import (
    AsJson,
    acting_for,
    out,
    print_json,
    show,
    show_all,
    validated,
    with_services,
)

if TYPE_CHECKING:
    from recollect.bootstrap import Services

app = typer.Typer(help="API keys.", no_args_is_help=True)

Owner = Annotated[str, typer.Option("--user", metavar="EMAIL", help="Whose key it is.")]


@app.command()
def create(
    user: Owner,
    name: Annotated[str, typer.Option(help="What it is for.")] = "key",
    scope: Annotated[
        list[str] | None,
        typer.Option(help="read, write, admin, or one faculty's, such as bank:read; repeatable."),
    ] = None,
    expires_days: Annotated[int | None, typer.Option(min=1, help="Days until it expires.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key. It is shown once."""
    expires_at = datetime.now(UTC) + timedelta(days=expires_days) if expires_days else None
    wanted = validated(NewKey, name=name, scopes=scope or ["read", "write"], expires_at=expires_at)

    async def make(services: Services) -> IssuedKey:
        async with acting_for(services, user) as (tx, _):
            return await services.access.create_key(tx, wanted)

    issued = with_services(make)
    if as_json:
        print_json(issued.model_dump(mode="json"))
    else:
        out.print(issued.key, markup=False)
        out.print("[dim]Keep it: it is not shown again. Send it as Authorization: Bearer ...[/dim]")


@app.command("list")
def list_(user: Owner, as_json: AsJson = False) -> None:
    """List a user's API keys, newest first."""

    async def fetch(services: Services) -> list[ApiKey]:
        async with acting_for(services, user) as (tx, _):
            return await services.access.keys(tx, limit=1000)

    columns = ("prefix", "name", "scopes", "last_used_at", "expires_at", "revoked_at", "id")
    show_all(with_services(fetch), columns, as_json=as_json)


@app.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(metavar="ID")], user: Owner, as_json: AsJson = False
) -> None:
    """Make a key worthless, at once and for good."""

    async def end(services: Services) -> ApiKey:
        async with acting_for(services, user) as (tx, _):
            return await services.access.revoke_key(tx, key_id)

    show(with_services(end), as_json=as_json)
