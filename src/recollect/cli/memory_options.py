"""What the commands of memories share: their options, for whom they act, and how a change is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer
from rich.text import Text

from recollect.access.roles import RoleTooLow
from recollect.cli.console import acting_for, plain, with_services
from recollect.engine.models import UnknownMemory
from recollect.errors import InvalidInput
from recollect.kit.diff import differences
from recollect.kit.text import InvalidJson, strict_json

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction

T = TypeVar("T")
PAGE = 1_000
TYPES = ("user", "agent", "app", "run")

Actor = Annotated[str, typer.Option("--user", metavar="EMAIL", help="Who does it.")]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--about",
        metavar="NAME",
        help="Whom it is about: a user's name, or agent:NAME, app:NAME, run:NAME; repeatable.",
    ),
]
In = Annotated[UUID | None, typer.Option("--workspace", metavar="ID", help="There; not among one's own.")]
MemoryId = Annotated[UUID, typer.Argument(metavar="ID")]
Query = Annotated[str, typer.Argument(metavar="QUERY")]
Filters = Annotated[
    str | None, typer.Option("--filter", metavar="JSON", help='Such as {"stars": {"gte": 4}}.')
]
Because = Annotated[str | None, typer.Option(help="Why; stays in the history.")]
Metadata = Annotated[str | None, typer.Option(metavar="JSON", help="An object to keep along with it.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="At most this many.")]
Superseded = Annotated[bool, typer.Option("--superseded", help="Also what newer facts have replaced.")]
Expired = Annotated[bool, typer.Option("--expired", help="Also what has expired.")]


@asynccontextmanager
async def _acting(
    services: Services, email: str, workspace: UUID | None, *, writing: bool = False
) -> AsyncIterator[Transaction]:
    """What is done as the user, where the workspace is one of theirs."""
    async with acting_for(services, email) as (tx, _):
        if workspace is not None:
            place = await services.membership.workspace(tx, workspace)
            if writing and place.role == "viewer":
                raise RoleTooLow
        yield tx


def as_user(
    email: str,
    workspace: UUID | None,
    work: Callable[[Services, Transaction], Awaitable[T]],
    *,
    writing: bool = False,
) -> T:
    async def run(services: Services) -> T:
        async with _acting(services, email, workspace, writing=writing) as tx:
            return await work(services, tx)

    return with_services(run)


def to_memory(memory: UUID, email: str, work: Callable[[Services, Transaction], Awaitable[T]]) -> T:
    """Change a memory. Who sees it and finds nothing to change has too low a role."""

    async def run(services: Services) -> T:
        try:
            async with acting_for(services, email) as (tx, _):
                return await work(services, tx)
        except UnknownMemory as unknown:
            async with acting_for(services, email) as (tx, _):
                await services.engine.get(tx, memory)
            raise RoleTooLow from unknown

    return with_services(run)


def pages_for(
    email: str,
    workspace: UUID | None,
    fetch: Callable[[Services, Transaction, T | None], Awaitable[Sequence[T]]],
    *,
    everything: bool,
) -> list[T]:
    async def run(services: Services) -> list[T]:
        found: list[T] = []
        while True:
            async with _acting(services, email, workspace) as tx:
                page = await fetch(services, tx, found[-1] if found else None)
            found.extend(page)
            if not everything or len(page) < PAGE:
                return found

    return with_services(run)


def named(about: Sequence[str] | None) -> dict[str, str]:
    named: dict[str, str] = {}
    for each in about or ():
        kind, colon, name = each.partition(":")
        kind, name = (kind, name) if colon and kind in TYPES else ("user", each)
        if kind in named:
            raise InvalidInput(f"--about: only one {kind} at a time.")
        named[kind] = name
    return named


def parsed(given: str, name: str) -> Any:
    try:
        return strict_json(given.encode(errors="surrogateescape"))
    except InvalidJson as error:
        raise InvalidInput(error.detail.replace("The body", name)) from error


def diff_of(before: str, after: str) -> Text:
    """In colours, and in signs where there are none."""
    shown = Text()
    for part in differences(before, after):
        words = plain(part.text, keeping="\n\t")
        match part.kind:
            case "same":
                shown.append_text(words)
            case "gone":
                shown.append("[-").append_text(words).append("-]")
                shown.stylize("red", len(shown) - len(words) - 4)
            case "new":
                shown.append("{+").append_text(words).append("+}")
                shown.stylize("green", len(shown) - len(words) - 4)
    return shown
