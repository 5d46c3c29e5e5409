"""serve, worker, migrate: the commands that run the product."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.console import (
    AsJson,
    address_of,
    err,
    load_settings,
    out,
    print_json,
    run_async,
    serving_at,
)

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.database import Database
    from recollect.db.migrate import Migration
    from recollect.settings import Settings

Port = Annotated[int | None, typer.Option(help="Port to listen on.", show_default="8000")]
Host = Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")]


def serve(port: Port = None, host: Host = None) -> None:
    """Serve the API, the dashboard and the worker."""
    run_async(_serve(load_settings(port=port, host=host)))


async def _serve(settings: Settings) -> None:
    # The web framework takes a second to load, which only this command should cost.
    from recollect.app import create_app
    from recollect.bootstrap import open_services
    from recollect.kit.loops import for_ever
    from recollect.server import Server, listen

    listener = listen(settings.host, settings.port)
    with contextlib.closing(listener):
        async with (
            open_services(settings) as services,
            _beside(_watch(services.database), services.worker.work(), for_ever(services.live.watch)),
        ):
            sign_in = await _how_to_sign_in(services)
            server = Server(
                create_app(services),
                on_started=lambda: _greet(services, sign_in),
                on_stopping=services.live.close,
                trusted_proxies=settings.trusted_proxies,
            )
            with serving_at(settings):
                await server.serve(sockets=[listener])
    out.print("Stopped.")


def worker() -> None:
    """Run a worker alone, beside servers elsewhere."""
    from recollect.bootstrap import open_services

    settings = load_settings()

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with (
            open_services(settings) as services,
            _beside(_watch(services.database), services.worker.work()),
        ):
            out.print("Working. Ctrl-C stops.")
            await stop.wait()

    run_async(run())


def migrate(
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Make the server's logins this deployment's own.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the database's schema up to date."""
    from recollect.bootstrap import bring_up_to_date, open_database

    settings = load_settings()

    def report(migration: Migration) -> None:
        err.print(f"applied {migration.file}")

    async def run() -> list[Migration]:
        async with open_database(settings) as (database, _):
            return await bring_up_to_date(database, report, take_over=take_over)

    applied = run_async(run())
    if as_json:
        print_json({"applied": [migration.file for migration in applied]})
    elif not applied:
        out.print("The database is up to date.")


@contextlib.asynccontextmanager
async def _beside(*background: Coroutine[None, None, None]) -> AsyncIterator[None]:
    from recollect.kit.loops import stop

    tasks = [asyncio.create_task(each) for each in background]
    try:
        yield
    finally:
        await stop(*tasks)


async def _watch(database: Database) -> None:
    if database.embedded is not None:
        await database.embedded.watch()


async def _how_to_sign_in(services: Services) -> str:
    address = address_of(services.settings)
    admin = await services.access.ensure_first_admin()
    if admin is None:
        return "there is no admin yet: recollect user admin EMAIL makes one"
    if admin.has_password or admin.email is None:
        return f"{address}/sign-in"
    token = await services.access.make_link(admin.email)
    return (
        f"{address}/sign-in?token={token}\n             [dim](once, within the hour, as {admin.email})[/dim]"
    )


def _greet(services: Services, sign_in: str) -> None:
    address, embedded = address_of(services.settings), services.database.embedded
    out.print(f"\n[bold]Recollect[/bold] serves memory at [bold]{address}[/bold]")
    out.print(f"  sign in    {sign_in}")
    out.print(f"  data       {embedded.data_dir if embedded else 'the database in RECOLLECT_DATABASE_URL'}")
    out.print(f"  API        {address}/docs")
    out.print(f"  [dim]Ctrl-C stops everything{', Postgres included' if embedded else ''}.[/dim]\n")
