"""recollect chats: the chat histories that are kept, and who agrees to their analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast
from uuid import UUID

import typer
from rich.text import Text

from recollect.cli.console import (
    AsJson,
    as_user,
    check_workspace,
    err,
    out,
    plain,
    print_json,
    show,
    show_all,
)
from recollect.errors import InvalidInput

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction
    from recollect.rules.histories.models import Consent, Decides, History, HistoryTurn, RuleSettings

app = typer.Typer(help="Chat histories.", no_args_is_help=True)

PAGE = 1_000
HOW = "command line"
_RELIES_ON = {
    "author": "each author agrees for themselves",
    "workspace": "it agrees for all who have not said no",
}
SHOWN = ("id", "source", "project", "title", "turns", "imported_at")

Author = Annotated[
    str | None,
    typer.Option("--user", metavar="EMAIL", help="Whose they are; needed if there are several users."),
]
In = Annotated[UUID | None, typer.Option("--workspace", metavar="ID", help="Those in a workspace.")]
ChatId = Annotated[UUID, typer.Argument(metavar="ID")]


@app.command("list")
def list_(
    *,
    user: Author = None,
    workspace: In = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most this many.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List chats; those that got turns last come first."""

    async def work(services: Services, tx: Transaction, author: UUID) -> list[History]:
        await check_workspace(services, tx, workspace)
        return [*await services.histories.list(tx, author, workspace=workspace, limit=limit + 1)]

    chats = as_user(user, work)
    show_all(chats[:limit], SHOWN, as_json=as_json)
    if len(chats) > limit:
        err.print(f"[dim]There are more than {limit}; --limit shows more.[/dim]")


@app.command("show")
def show_(chat: ChatId, *, user: Author = None, as_json: AsJson = False) -> None:
    """Show what was said in a chat."""

    async def work(services: Services, tx: Transaction, author: UUID) -> tuple[History, list[HistoryTurn]]:
        found = await services.histories.get(tx, author, chat)
        turns: list[HistoryTurn] = []
        while page := await services.histories.turns(
            tx, author, chat, after=turns[-1].number if turns else -1, limit=PAGE
        ):
            turns += page
        return found, turns

    found, turns = as_user(user, work)
    if as_json:
        said = [turn.model_dump(mode="json") for turn in turns]
        print_json({"chat": found.model_dump(mode="json"), "turns": said})
        return
    show(found, as_json=False)
    for turn in turns:
        style = "bold" if turn.role == "user" else "dim"
        out.print()
        out.print(Text(f"{turn.number} {turn.role}", style=style))
        out.print(plain(turn.text, keeping="\n\t"))


@app.command()
def delete(
    chat: ChatId,
    *,
    user: Author = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forget a chat and all that was said in it."""
    if not yes:
        found = as_user(user, lambda services, tx, author: services.histories.get(tx, author, chat))
        typer.confirm(f"Delete the chat of {found.turns:,} turns, for good?", abort=True, err=True)
    as_user(user, lambda services, tx, author: services.histories.delete(tx, author, chat))
    if as_json:
        print_json({"deleted": 1})
    else:
        out.print("1 deleted.")


@app.command()
def consent(
    *,
    user: Author = None,
    workspace: In = None,
    granted: Annotated[
        bool | None,
        typer.Option("--yes/--no", help="Agree that rules are learnt from the chats, or no longer."),
    ] = None,
    rely_on: Annotated[
        str | None,
        typer.Option(
            metavar="WHOM",
            help="Whose agreement the workspace takes: author, or workspace (for owners and admins).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show who agrees that rules are learnt from chats, or say so."""
    if rely_on is not None and (rely_on not in {"author", "workspace"} or workspace is None):
        raise InvalidInput("--rely-on takes author or workspace, and --workspace says which.")

    async def work(
        services: Services, tx: Transaction, author: UUID
    ) -> tuple[list[Consent], RuleSettings | None]:
        await check_workspace(services, tx, workspace)
        if rely_on is not None and workspace is not None:
            await services.histories.change_settings(tx, workspace, cast("Decides", rely_on))
        if granted is not None:
            await services.histories.consent(tx, author, granted, workspace, how=HOW)
        said = [*await services.histories.consents(tx, author)]
        return said, None if workspace is None else await services.histories.settings(tx, workspace)

    said, settings = as_user(user, work)
    show_all(said, ("workspace_id", "granted", "how", "created_at"), as_json=as_json)
    if settings is not None and not as_json:
        out.print(f"The workspace relies on {settings.consent}: {_RELIES_ON[settings.consent]}.")
