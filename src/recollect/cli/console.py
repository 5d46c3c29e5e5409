"""What all commands share: settings, services, output for people or for scripts, exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer
from pydantic import BaseModel, ValidationError
from rich.console import Console
from rich.text import Text

from recollect.cli.tables import Rows, pairs
from recollect.errors import InvalidInput, Misconfigured, NotFound, RecollectError

if TYPE_CHECKING:
    from uuid import UUID

    from rich.progress import Progress

    from recollect.access.models import User
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction
    from recollect.settings import Settings

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

# What goes into a pipe is never cut to the width of a terminal.
out = Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else 100_000)
err = Console(stderr=True, soft_wrap=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


PATIENCE_SECONDS = 2


def load_settings(**overrides: Any) -> Settings:
    # Imported here, like all that is only needed to run a command: --help answers without it.
    from pydantic_settings import SettingsError

    from recollect.kit import logs
    from recollect.settings import Settings

    try:
        settings = Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        found = error.errors()[0]
        name = str(found["loc"][0])
        if name in Settings.model_fields:
            name = f"RECOLLECT_{name.upper()}"
        raise Misconfigured(f"The setting {name} is not usable: {found['msg']}.") from error
    except SettingsError as error:
        # Names the field, and not what it holds.
        raise Misconfigured(f"The settings cannot be read: {error}.") from error
    logs.configure(settings.log_level)
    return settings


def with_services(work: Callable[[Services], Awaitable[T]]) -> T:
    """Run one command against the database, whether or not a server is running."""
    from recollect.bootstrap import open_services

    settings = load_settings()

    async def run() -> T:
        _heed_termination()
        async with open_services(settings) as services:
            return await work(services)

    try:
        return run_async(run())
    except asyncio.CancelledError:
        # Nothing else cancels a command from outside: Ctrl-C comes as itself.
        raise KeyboardInterrupt from None


def _heed_termination() -> None:
    """Let SIGTERM do what Ctrl-C does: what runs is cancelled, and may record that it was stopped."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


@contextlib.asynccontextmanager
async def acting_for(services: Services, email: str) -> AsyncIterator[tuple[Transaction, UUID]]:
    """A transaction in which everything is done as that user would do it."""
    from recollect.db.tenancy import Caller

    user = await services.access.find_user(email)
    async with services.tenancy.acting_as(Caller.user(user.id)) as tx:
        yield tx, user.id


async def acting_user(services: Services, email: str | None) -> User:
    """The user who is named, here or in the settings, or the only one there is. On a new machine that one is
    made, and it says so."""
    if email is not None:
        return await services.access.find_user(email)
    if (usual := services.settings.user) is not None:
        return await _usual_user(services, usual)
    users = await services.access.list_users(limit=2)
    if len(users) == 1:
        return users[0]
    made = None if users else await services.access.ensure_first_admin()
    if made is None:
        raise InvalidInput(
            "Say for whom: --user EMAIL, or RECOLLECT_USER=EMAIL in the environment for all commands."
            " `recollect user list` shows who there is."
        )
    err.print(plain(f"There was no user yet: {made.email} is the first, and this is theirs."))
    return made


async def _usual_user(services: Services, email: str) -> User:
    try:
        return await services.access.find_user(email)
    except NotFound as error:
        raise NotFound(f"There is no user {email}, whom RECOLLECT_USER names.") from error


def as_user(email: str | None, work: Callable[[Services, Transaction, UUID], Awaitable[T]]) -> T:
    """Do something in a transaction, as the user who is named or the only one there is."""

    async def run(services: Services) -> T:
        from recollect.db.tenancy import Caller

        user = await acting_user(services, email)
        async with services.tenancy.acting_as(Caller.user(user.id)) as tx:
            return await work(services, tx, user.id)

    return with_services(run)


async def check_workspace(services: Services, tx: Transaction, workspace: UUID | None) -> None:
    """An error unless the user is in the workspace, if one is named."""
    if workspace is None:
        return
    try:
        await services.membership.workspace(tx, workspace)
    except NotFound as error:
        raise NotFound("There is no such workspace, or you are not in it.") from error


def run_async(work: Coroutine[Any, Any, T]) -> T:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


@contextlib.asynccontextmanager
async def waiting(
    doing: str, *, patience: float = PATIENCE_SECONDS, console: Console = err
) -> AsyncIterator[None]:
    """Say what is being done, and for how long, if it takes more than a moment."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    progress = Progress(*columns, console=console, transient=True)
    progress.add_task(doing, total=None)
    timer = asyncio.get_running_loop().call_later(patience, progress.start)
    try:
        yield
    finally:
        timer.cancel()
        # One that was never shown would leave an empty line behind.
        if progress.live.is_started:
            progress.stop()


def progress_bar(*, of_bytes: bool = False) -> Progress:
    """For work whose length is known. Where nobody looks, there is none."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    count = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn()
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def validated(model: type[M], **fields: Any) -> M:
    """An input model from what was typed, or a sentence on what is wrong with it."""
    try:
        return model(**fields)
    except ValidationError as error:
        found = error.errors()[0]
        fail(f"{'.'.join(str(part) for part in found['loc'])}: {found['msg']}.")


def address_of(settings: Settings) -> str:
    """Where people reach the server: as configured, as the one serving this home noted, or by default."""
    if settings.public_url is not None:
        return str(settings.public_url).rstrip("/")
    try:
        return _noted_address(settings).read_text().strip()
    except OSError:
        return f"http://{settings.host}:{settings.port}"


@contextlib.contextmanager
def serving_at(settings: Settings) -> Iterator[None]:
    """Note where this home is served, for commands that run beside the server."""
    note = _noted_address(settings)
    note.write_text(f"http://{settings.host}:{settings.port}\n")
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def _noted_address(settings: Settings) -> Path:
    return settings.home / "address"


def show(value: BaseModel | Mapping[str, Any], *, as_json: bool) -> None:
    fields = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    if as_json:
        print_json(fields)
        return
    out.print(pairs({name: plain(field, keeping="\n\t") for name, field in fields.items()}))


def show_all(
    values: Sequence[BaseModel], columns: Sequence[str], *, as_json: bool, by_alias: bool = False
) -> None:
    if as_json:
        print_json([value.model_dump(mode="json", by_alias=by_alias) for value in values])
        return
    rows = [value.model_dump(mode="json") for value in values]
    cells = [[_on_one_line(row[column]) for column in columns] for row in rows]
    titles = [column.replace("_", " ") for column in columns]
    out.print(Rows(titles, cells) if values else "[dim]nothing there[/dim]")


def _on_one_line(value: Any) -> Text:
    return plain(" ".join(value.splitlines()) if isinstance(value, str) else value)


def print_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    # The same JSON, but inert on a terminal.
    typer.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def print_value(value: Any) -> None:
    """Text as it is, everything else as JSON; byte for byte, unless a terminal would obey it."""
    if not isinstance(value, str):
        print_json(value)
    else:
        typer.echo(plain(value, keeping="\n\t").plain if sys.stdout.isatty() else value)


def plain(value: Any, *, keeping: str = "") -> Text:
    """For people to see. Stored text may hold terminal escapes and markup; shown, it is inert."""
    if value is None:
        return Text()
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Text("".join(c if c.isprintable() or c in keeping else "\N{REPLACEMENT CHARACTER}" for c in text))


def fail(message: str) -> NoReturn:
    err.print("[bold red]error[/bold red]", end=" ")
    err.print(message, markup=False)
    raise SystemExit(1)


def fail_with(error: RecollectError) -> NoReturn:
    fail(error.detail)
