"""recollect profile: a user's state, as it is, as it was, and how it came to be so."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer
from rich.table import Table
from rich.text import Text

from recollect.cli.console import AsJson, err, out, plain, print_json, show, show_all, with_services
from recollect.cli.memory_options import Because, Limit, diff_of, parsed
from recollect.errors import InvalidInput, NotFound, NotSignedIn

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction
    from recollect.profile.models import Blame, Difference, Snapshot, Verified, Version
    from recollect.profile.readable import Change

T = TypeVar("T")
Work = Callable[["Services", "Transaction", UUID], Awaitable[T]]

app = typer.Typer(help="A user's state: a document with versions.", no_args_is_help=True)

User = Annotated[str, typer.Argument(metavar="USER", help="An e-mail address, or an id.")]
AtVersion = Annotated[int | None, typer.Option("--version", min=0, help="At this version.")]
AtMoment = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="At this moment, such as 2030-01-31T12:00Z.")
]


@app.command("show")
def show_(user: User, version: AtVersion = None, at: AtMoment = None, as_json: AsJson = False) -> None:
    """Print a profile: as it is, or as it was."""

    async def work(services: Services, tx: Transaction, user_id: UUID) -> Snapshot:
        return await services.profile.reconstruct_memory(tx, user_id, version=version, at=_moment(at))

    found = as_user(user, work)
    if as_json:
        print_json(found.document)
        return
    when = f"{found.created_at:%Y-%m-%d %H:%M:%S} UTC" if found.created_at else "nothing stored yet"
    out.print(f"[bold]version {found.version}[/bold]  [dim]{when}[/dim]")
    _print_document(found.document)


@app.command()
def history(
    user: User,
    limit: Limit = 20,
    before: Annotated[int | None, typer.Option(min=1, help="Those before this version.")] = None,
    as_json: AsJson = False,
) -> None:
    """List a profile's versions, the latest first."""

    async def work(services: Services, tx: Transaction, user_id: UUID) -> list[Version]:
        return await services.profile.history(tx, user_id, before=before, limit=limit)

    versions = as_user(user, work)
    if as_json or not versions:
        show_all(versions, (), as_json=as_json)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("version", "when", "origin", "changes", "by", "why"):
        table.add_column(column, overflow="fold")
    for each in versions:
        table.add_row(
            str(each.version),
            f"{each.created_at:%Y-%m-%d %H:%M:%S}",
            each.origin,
            str(len(each.patch)),
            plain(str(each.actor) if each.actor else "the server"),
            plain(each.source_description),
        )
    out.print(table)
    if len(versions) == limit and versions[-1].version > 1:
        err.print(f"[dim]There are more; --before {versions[-1].version} shows those before.[/dim]")


@app.command()
def diff(
    user: User,
    one: Annotated[int, typer.Argument(metavar="A", min=0, help="This version,")],
    other: Annotated[
        int | None, typer.Argument(metavar="[B]", min=0, help="and this one; none: the latest.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what lies between two versions: what went in red, what came in green."""

    async def work(services: Services, tx: Transaction, user_id: UUID) -> tuple[Difference, list[Change]]:
        return await compared(services, tx, user_id, one, other)

    difference, changes = as_user(user, work)
    if as_json:
        print_json(difference.model_dump(mode="json"))
    else:
        tell(changes)


@app.command()
def restore(
    user: User,
    version: AtVersion = None,
    at: AtMoment = None,
    reason: Because = None,
    as_json: AsJson = False,
) -> None:
    """Make a profile what it was, as a new version, and show what that changes."""

    async def work(services: Services, tx: Transaction, user_id: UUID) -> Snapshot:
        return await services.profile.restore(tx, user_id, version=version, at=_moment(at), reason=reason)

    _write(user, work, as_json=as_json)


@app.command()
def undo(user: User, version: AtVersion = None, reason: Because = None, as_json: AsJson = False) -> None:
    """Take back what the latest version changed, or another one, and show what that changes."""

    async def work(services: Services, tx: Transaction, user_id: UUID) -> Snapshot:
        return await services.profile.undo(tx, user_id, version=version, reason=reason)

    _write(user, work, as_json=as_json)


@app.command()
def edit(user: User, reason: Because = None, as_json: AsJson = False) -> None:
    """Open a profile in $EDITOR, store what was changed, and show it."""

    async def read(services: Services, tx: Transaction, user_id: UUID) -> Snapshot:
        return await services.profile.reconstruct_memory(tx, user_id)

    before = as_user(user, read)
    document = parsed(_edited(json.dumps(before.document, ensure_ascii=False, indent=2)), "What was typed")
    if not isinstance(document, dict):
        raise InvalidInput("A profile is a JSON object.")

    async def write(services: Services, tx: Transaction, user_id: UUID) -> Snapshot:
        # What others have changed meanwhile stays.
        return await services.profile.replace(tx, user_id, document, base=before.version, reason=reason)

    _write(user, write, as_json=as_json)


@app.command()
def blame(
    user: User,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A JSON Pointer, such as /summary.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say which version last changed what a path leads to."""

    async def work(services: Services, tx: Transaction, user_id: UUID) -> Blame:
        return await services.profile.blame(tx, user_id, path)

    show(as_user(user, work), as_json=as_json)


@app.command()
def verify(user: User, as_json: AsJson = False) -> None:
    """Check a whole history: each patch, each checksum, each checkpoint."""

    async def work(services: Services, tx: Transaction, user_id: UUID) -> Verified:
        return await services.profile.verify(tx, user_id)

    verified = as_user(user, work)
    if as_json:
        print_json(verified.model_dump())
    else:
        out.print(f"{verified.versions:,} versions, {verified.checkpoints:,} checkpoints.")
        for each in verified.damage:
            err.print(plain(each), style="red")
    if verified.damage:
        raise typer.Exit(1)


def _edited(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "profile.json"
        file.write_text(f"{text}\n")
        # The shell knows what is set, and where its arguments begin.
        command = ("sh", "-c", '${VISUAL:-${EDITOR:-vi}} "$1"', "sh", str(file))
        if subprocess.run(command, check=False).returncode:
            raise InvalidInput("The editor failed, and nothing is changed; set EDITOR to yours.")
        return file.read_text()


def as_user(user: str, work: Work[T]) -> T:
    """Do it as the user would, in one transaction."""

    async def run(services: Services) -> T:
        from recollect.db.tenancy import Caller

        user_id = await user_named(services, user)
        try:
            async with services.tenancy.acting_as(Caller.user(user_id), for_one_call=True) as tx:
                return await work(services, tx, user_id)
        except NotSignedIn as error:
            raise NotFound("There is no such user.") from error

    return with_services(run)


async def user_named(services: Services, user: str) -> UUID:
    try:
        return UUID(user)
    except ValueError:
        return (await services.access.find_user(user)).id


async def compared(
    services: Services, tx: Transaction, user_id: UUID, one: int, other: int | None
) -> tuple[Difference, list[Change]]:
    from recollect.profile.service import news

    tx.hold()
    difference = await services.profile.diff(tx, user_id, one, other)
    before = await services.profile.reconstruct_memory(tx, user_id, version=one)
    return difference, news(difference.patch, before.document)


def tell(changes: Iterable[Change]) -> None:
    """One line for each, in colours, and in signs where there are none."""
    lines = [_line(each) for each in changes]
    for line in lines:
        out.print(line)
    if not lines:
        out.print("[dim]Nothing differs.[/dim]")


def _line(change: Change) -> Text:
    path = plain(change.path)
    match change.kind:
        case "added":
            return Text.assemble("+ ", path, ": ", _value(change.after), style="green")
        case "removed":
            return Text.assemble("- ", path, ": ", _value(change.before), style="red")
        case "moved":
            return Text.assemble(plain(change.origin), " => ", path, style="cyan")
    return Text.assemble(path, ": ", diff_of(_written(change.before), _written(change.after)))


def _value(value: Any) -> Text:
    return plain(_written(value), keeping="\n\t")


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write(user: str, work: Work[Snapshot], *, as_json: bool) -> None:
    async def run(services: Services, tx: Transaction, user_id: UUID) -> tuple[Snapshot, int, list[Change]]:
        tx.hold()
        before = await services.profile.reconstruct_memory(tx, user_id)
        made = await work(services, tx, user_id)
        _, changes = await compared(services, tx, user_id, before.version, made.version)
        return made, before.version, changes

    made, before, changes = as_user(user, run)
    if as_json:
        print_json(made.document)
        return
    tell(changes)
    is_new = made.version != before
    out.print(f"[dim]{'Now at' if is_new else 'Still at'} version {made.version}.[/dim]")


def _print_document(document: dict[str, Any]) -> None:
    table = Table.grid(padding=(0, 2))
    for name, value in document.items():
        if name == "version" or value in ("", [], {}):
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        table.add_row(Text(name, style="dim"), plain(text, keeping="\n\t"))
    out.print(table)


def _moment(given: str | None) -> datetime | None:
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given)
    except ValueError as error:
        raise InvalidInput("--at: a date and time such as 2030-01-31T12:00Z.") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
