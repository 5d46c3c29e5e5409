"""recollect import chats: chat histories out of files, whatever wrote them."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
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
    from recollect.db.tenancy import Transaction
    from recollect.rules.histories.importing import Outcome

SHOWN = 20
HOW = "command line"
_AGREED_ALREADY = (
    "Rules are learnt from your chats here, and would be from these too."
    " To import without that, first take it back: {}."
)


class Done(NamedTuple):
    user: User
    outcome: Outcome
    agrees_now: bool
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
        from recollect.rules.histories.importing import Import

        author = await acting_user(services, user)
        agreement = Agreement(services, author.id, workspace)
        if consent is False and not dry_run:
            await agreement.refuse(_way("no", workspace, user))
        place = {"workspace": workspace, "project": project}
        bringing = Import(services.histories, services.tenancy, author.id, **place, dry_run=dry_run)
        with progress_bar(of_bytes=True) as progress:
            bar = progress.add_task("Importing", total=None)
            outcome = await bringing.run(
                paths, lambda done, total: progress.update(bar, completed=done, total=total)
            )
        is_reason = not dry_run and _is_reason(outcome, consent)
        agrees_now = is_reason and await agreement.give(after_refusal=consent is True)
        return Done(author, outcome, agrees_now, await agreement.holds())

    done = with_services(run)
    if as_json:
        print_json(_told(done))
    else:
        _show(done)
        if not dry_run and done.outcome.formats:
            _tell_agreement(done, workspace, user)
    if not done.outcome.formats:
        raise typer.Exit(1)


def _is_reason(outcome: Outcome, consent: bool | None) -> bool:
    """To import one's own is to agree. What was here already is not imported, whoever brought it."""
    if consent is None:
        return outcome.whole.turns > 0
    return consent and bool(outcome.formats)


@dataclass(frozen=True, slots=True)
class Agreement:
    """That rules are learnt from somebody's chats in one place."""

    services: Services
    user_id: UUID
    workspace: UUID | None

    async def holds(self) -> bool:
        async with self._acting() as tx:
            return await self._holds(tx)

    async def refuse(self, way_back: str) -> None:
        """Note the no, so that it stays one when more is imported; an error where there is a yes."""
        from recollect.errors import Conflict

        async with self._acting() as tx:
            if await self._holds(tx):
                raise Conflict(_AGREED_ALREADY.format(way_back))
            if await self._said(tx) is None:
                await self._say(tx, granted=False)

    async def give(self, *, after_refusal: bool) -> bool:
        """Whether it is given now: it is once, and not by whoever said no, unless they say otherwise."""
        async with self._acting() as tx:
            said = await self._said(tx)
            is_new = said is None or (said is False and after_refusal)
            if is_new:
                await self._say(tx, granted=True)
            return is_new

    async def _holds(self, tx: Transaction) -> bool:
        return await self.services.histories.may_analyse(tx, self.user_id, self.workspace)

    async def _said(self, tx: Transaction) -> bool | None:
        said = await self.services.histories.consents(tx, self.user_id)
        return next((each.granted for each in said if each.workspace_id == self.workspace), None)

    async def _say(self, tx: Transaction, *, granted: bool) -> None:
        await self.services.histories.consent(tx, self.user_id, granted, self.workspace, how=HOW)

    def _acting(self) -> Transaction:
        from recollect.db.tenancy import Caller

        return self.services.tenancy.acting_as(Caller.user(self.user_id))


def _way(answer: str, workspace: UUID | None, user: str | None) -> str:
    """How to say yes or no to it, for the place and the user that were named."""
    place = "" if workspace is None else f" --workspace {workspace}"
    whose = "" if user is None else f" --user {shlex.quote(user)}"
    return f"recollect chats consent --{answer}{place}{whose}"


def _told(done: Done) -> dict[str, Any]:
    hidden = {"ids"}
    return {
        **done.outcome.whole.model_dump(exclude=hidden),
        "formats": {name: each.model_dump(exclude=hidden) for name, each in done.outcome.formats.items()},
        "skipped": [asdict(each) for each in done.outcome.skipped],
        "consent": done.may_be_analysed,
        "user": done.user.email,
    }


def _show(done: Done) -> None:
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


def _tell_agreement(done: Done, workspace: UUID | None, user: str | None) -> None:
    if done.agrees_now:
        way = _way("no", workspace, user)
        out.print(
            plain(
                "By importing them you agree that rules are learnt from your chats here;"
                f" `{way}` takes that back."
            )
        )
    elif not done.may_be_analysed:
        way = _way("yes", workspace, user)
        out.print(plain(f"Nothing is learnt from them before you agree: `{way}`."))
