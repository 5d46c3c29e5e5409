"""recollect events: what has happened, and what happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.console import AsJson, err, out, plain, print_json, show_all, with_services
from recollect.events.models import matches, wanted_types

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Caller
    from recollect.events.models import Event

PAGE = 1_000

app = typer.Typer(help="Events: what has happened, and what happens.", no_args_is_help=True)

Types = Annotated[
    str | None,
    typer.Option(metavar="TYPES", help='Only these, comma separated, such as "bank.*,memory.added".'),
]
Listener = Annotated[
    str | None,
    typer.Option("--user", metavar="EMAIL", help="Only what this user may hear.", show_default="everything"),
]


@app.command("list")
def list_(
    types: Types = None,
    user: Listener = None,
    after: Annotated[int, typer.Option(min=0, metavar="N", help="Only after this position.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the last events, the newest at the end."""
    wanted = wanted_types(types)

    async def fetch(services: Services) -> list[Event]:
        async with services.tenancy.acting_as(await _caller(services, user), for_one_call=True) as tx:
            latest = await services.events.latest(tx, after=after, types=wanted, limit=limit)
        return latest[::-1]

    columns = ("happened_at", "type", "subject", "data", "position")
    show_all(with_services(fetch), columns, as_json=as_json)


@app.command()
def tail(
    types: Types = None,
    user: Listener = None,
    after: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Begin after this position.", show_default="now"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show events as they happen, one line each, until Ctrl-C."""
    wanted = wanted_types(types)

    async def follow(services: Services) -> None:
        from recollect.db.listening import wake_ups
        from recollect.errors import Unavailable

        caller = await _caller(services, user)
        position = await _beginning(services, after)
        async for _ in wake_ups(services.database.worker, "recollect_events"):
            try:
                async for event in _after(services, caller, position):
                    position = event.position
                    if matches(event.type, wanted):
                        _tell(event, as_json=as_json)
            except Unavailable as error:
                err.print(error.detail, style="dim", markup=False)

    with_services(follow)


async def _caller(services: Services, user: str | None) -> Caller:
    from recollect.db.tenancy import SERVICE, Caller

    if user is None:
        return SERVICE
    return Caller.user((await services.access.find_user(user)).id).needing("events:read")


async def _after(services: Services, caller: Caller, position: int) -> AsyncIterator[Event]:
    """What the caller may hear of what came after a position."""
    while True:
        async with services.tenancy.acting_as(caller, for_one_call=True) as tx:
            page = await services.events.list(tx, after=position, limit=PAGE)
        for event in page:
            position = event.position
            yield event
        if len(page) < PAGE:
            return


async def _beginning(services: Services, after: int | None) -> int:
    from recollect.db.tenancy import SERVICE
    from recollect.events.service import queries

    async with services.tenancy.acting_as(SERVICE, for_one_call=True) as tx:
        present = await tx.one(queries.present, last=True)
    newest: int = present["newest"]
    if after is None:
        err.print("Listening. Ctrl-C ends.", style="dim")
        return newest
    if after < present["oldest"] - 1:
        err.print(f"What came before {present['oldest']} is no longer kept.", style="dim")
    return after


def _tell(event: Event, *, as_json: bool) -> None:
    if as_json:
        print_json(event.model_dump(mode="json"))
        return
    line = plain(f"{event.happened_at:%Y-%m-%d %H:%M:%S}  {event.type:<16}  {event.subject}  ")
    if event.data:
        line.append(plain(event.data).plain, style="dim")
    out.print(line)
