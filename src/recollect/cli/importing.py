"""recollect import: memories and chats from elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from recollect.cli.console import AsJson, err, out, plain, print_json, progress_bar, with_services
from recollect.errors import InvalidInput, Misconfigured

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from recollect.bootstrap import Services
    from recollect.engine.mem0.importing import Imported

app = typer.Typer(help="Memories and chats from elsewhere.", no_args_is_help=True)

SHOWN = 20


@app.callback()
def callback() -> None:
    """Memories and chats from elsewhere."""


@app.command()
def mem0(
    *,
    user: Annotated[str, typer.Option("--user", metavar="EMAIL", help="Whose memories they become.")],
    workspace: Annotated[
        UUID | None, typer.Option(metavar="ID", help="A workspace whose memories they become instead.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What mem0 exported, as JSON; without it, the account is read."),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Of the account; by default MEM0_API_KEY.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="URL", help="Where mem0 answers; by default MEM0_HOST.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be added; add nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring memories over from mem0: an account, or a file that it exported. Again, it adds what is new."""
    if file is not None and (api_key or host):
        raise InvalidInput("Give a file, or an account: not both.")
    imported = with_services(
        lambda services: _import(
            services, user, workspace, _pages(services, file, api_key, host), dry_run=dry_run
        )
    )
    if as_json:
        print_json(imported.model_dump(mode="json"))
    else:
        _tell(imported, dry_run=dry_run)
    if imported.failed:
        raise typer.Exit(1)


async def _import(
    services: Services,
    email: str,
    workspace: UUID | None,
    pages: AsyncIterator[tuple[int, list[Any]]],
    *,
    dry_run: bool,
) -> Imported:
    from recollect.db.tenancy import Caller
    from recollect.engine.mem0.importing import Import

    caller = Caller.user((await services.access.find_user(email)).id)
    bringing = Import(services.engine, services.tenancy, caller, workspace=workspace, dry_run=dry_run)
    if workspace is not None:
        async with services.tenancy.acting_as(caller, for_one_call=True) as tx:
            await services.membership.workspace(tx, workspace)
    with progress_bar() as progress:
        bar = progress.add_task("Importing", total=None)
        async for total, page in pages:
            progress.update(bar, total=total)
            await bringing.bring(page)
            progress.advance(bar, len(page))
    return bringing.outcome


async def _pages(
    services: Services, file: Path | None, api_key: str | None, host: str | None
) -> AsyncIterator[tuple[int, list[Any]]]:
    import httpx
    from pydantic import SecretStr

    from recollect.engine.mem0.importing import PAGE, read_account, read_export
    from recollect.engine.mem0.wire import Wire

    if file is not None:
        try:
            records = read_export(await asyncio.to_thread(file.read_bytes))
        except OSError as error:
            raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error
        for first in range(0, len(records), PAGE):
            yield len(records), records[first : first + PAGE]
        return
    settings = services.settings
    key = SecretStr(api_key) if api_key else settings.mem0_api_key
    if key is None:
        raise Misconfigured("Say where they come from: --file, or --api-key (or MEM0_API_KEY) of an account.")
    async with httpx.AsyncClient(timeout=60) as http:
        async for page in read_account(Wire(http, host or str(settings.mem0_host), key)):
            yield page


def _tell(imported: Imported, *, dry_run: bool) -> None:
    verb = "would be added" if dry_run else "added"
    out.print(f"{imported.added:,} {verb}, {imported.known:,} were here already, {imported.found:,} in all.")
    for failure in imported.failed[:SHOWN]:
        err.print(plain(f"{failure.mem0_id or 'one without an id'}: {failure.problem}"))
    if imported.failed:
        err.print(f"{len(imported.failed):,} could not be brought over.")
