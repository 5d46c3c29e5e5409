"""recollect import chats: chat histories out of files, whatever wrote them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from uuid import UUID

import typer
from rich.table import Table

from recollect.cli.console import (
    AsJson,
    acting_user,
    err,
    out,
    plain,
    print_json,
    progress_bar,
    with_services,
)

if TYPE_CHECKING:
    from recollect.access.models import User
    from recollect.bootstrap import Services
    from recollect.rules.histories.importing import Outcome

SHOWN = 20
HOW = "command line"
_AGREED_ALREADY = (
    "Rules are learnt from your chats here, and would be from these too."
    " To import without that, first take it back: recollect chats consent --no."
)


class Done(NamedTuple):
    user: User
    outcome: Outcome
    agreed: bool
    may_be_analysed: bool


def import_(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Files, folders, patterns and zips; formats are found out."),
    ],
    *,
    user: Annotated[
        str | None,
        typer.Option(
            "--user", metavar="EMAIL", help="Whose chats they are; needed if there are several users."
        ),
    ] = None,
    workspace: Annotated[
        UUID | None, typer.Option(metavar="ID", help="Where rules learnt from them belong; else to the user.")
    ] = None,
    project: Annotated[UUID | None, typer.Option(metavar="ID", help="A project of the workspace.")] = None,
    consent: Annotated[
        bool | None,
        typer.Option(
            "--consent/--no-consent",
            help="Agree that rules are learnt from them; by default, unless you have said no before.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be added; add nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring in chats of Claude Code, Codex, Cursor, ChatGPT, Claude and others. Again, it adds what is new.

    Secrets are masked first. To import your own chats is to agree that rules are learnt from them.
    """

    async def run(services: Services) -> Done:
        from recollect.errors import Conflict
        from recollect.rules.histories.importing import Import

        author = await acting_user(services, user)
        if consent is False and not dry_run and await _may_analyse(services, author, workspace):
            raise Conflict(_AGREED_ALREADY)
        place = {"workspace": workspace, "project": project}
        bringing = Import(services.histories, services.tenancy, author.id, **place, dry_run=dry_run)
        with progress_bar(of_bytes=True) as progress:
            bar = progress.add_task("Importing", total=None)
            outcome = await bringing.run(
                paths, lambda done, total: progress.update(bar, completed=done, total=total)
            )
        is_import = bool(outcome.formats) and not dry_run
        agreed = is_import and await _agreed(services, author, workspace, consent)
        return Done(author, outcome, agreed, await _may_analyse(services, author, workspace))

    done = with_services(run)
    if as_json:
        print_json(_told(done))
    else:
        _show(done, dry_run=dry_run)
    if not done.outcome.formats:
        raise typer.Exit(1)


async def _agreed(services: Services, author: User, workspace: UUID | None, said: bool | None) -> bool:
    """To import one's own is to agree, but for whoever says no, or has said it and nothing else since."""
    from recollect.db.tenancy import Caller

    async with services.tenancy.acting_as(Caller.user(author.id)) as tx:
        if said is None:
            before = await services.histories.consents(tx, author.id)
            said = all(each.granted for each in before if each.workspace_id == workspace)
        if said:
            await services.histories.consent(tx, author.id, True, workspace, how=HOW)
        return said


async def _may_analyse(services: Services, author: User, workspace: UUID | None) -> bool:
    from recollect.db.tenancy import Caller

    async with services.tenancy.acting_as(Caller.user(author.id)) as tx:
        return await services.histories.may_analyse(tx, author.id, workspace)


def _told(done: Done) -> dict[str, Any]:
    hidden = {"ids"}
    return {
        **done.outcome.whole.model_dump(exclude=hidden),
        "formats": {name: each.model_dump(exclude=hidden) for name, each in done.outcome.formats.items()},
        "skipped": [asdict(each) for each in done.outcome.skipped],
        "consent": done.may_be_analysed,
        "user": done.user.email,
    }


def _show(done: Done, *, dry_run: bool) -> None:
    outcome = done.outcome
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("format", "chats", "new turns", "known turns", "secrets masked"):
        table.add_column(column, justify="left" if column == "format" else "right")
    for name, each in {**outcome.formats, "all": outcome.whole}.items():
        masked = sum(each.masked.values())
        table.add_row(name, f"{each.chats:,}", f"{each.turns:,}", f"{each.known_turns:,}", f"{masked:,}")
    out.print(table if outcome.formats else "No chats were found.")
    for skipped in outcome.skipped[:SHOWN]:
        place = skipped.source if skipped.line is None else f"{skipped.source}, line {skipped.line}"
        err.print(plain(f"{place}: {skipped.reason}"))
    if (more := len(outcome.skipped) - SHOWN) > 0:
        err.print(f"{more:,} more were skipped; --json names them all.")
    if dry_run or not outcome.formats:
        return
    if done.agreed:
        out.print(
            "By importing them you agree that rules are learnt from your chats here;"
            " `recollect chats consent --no` takes that back."
        )
    elif not done.may_be_analysed:
        out.print("Nothing is learnt from them before you agree: `recollect chats consent --yes`.")
