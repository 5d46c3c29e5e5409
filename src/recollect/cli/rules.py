"""recollect rules: what chats ask for, what is agreed to, and how it was found."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer
from rich.text import Text

from recollect.cli.console import (
    AsJson,
    acting_user,
    as_user,
    check_workspace,
    err,
    out,
    plain,
    print_json,
    progress_bar,
    show,
    show_all,
    with_services,
)
from recollect.cli.tables import Rows
from recollect.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction
    from recollect.rules.models import Estimate, Extracted, Rule, Run, Status

app = typer.Typer(help="Rules that chats ask for.", no_args_is_help=True)

Who = Annotated[
    str | None,
    typer.Option("--user", metavar="EMAIL", help="Who does it; needed if there are several users."),
]
In = Annotated[UUID | None, typer.Option("--workspace", metavar="ID", help="Those of a workspace.")]
RuleId = Annotated[UUID, typer.Argument(metavar="ID")]
RuleIds = Annotated[
    list[UUID], typer.Argument(metavar="ID", help="All of them are decided, or none.", show_default=False)
]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="At most this many.")]
Because = Annotated[str | None, typer.Option("--reason", help="Why; stays on record.")]
IN_EVIDENCE = ("quote", "source", "session", "turn")


def _is_category(given: str | None) -> str | None:
    # Not a Literal: the models would have to be loaded for --help.
    from recollect.rules.models import CATEGORIES

    if given is not None and given not in CATEGORIES:
        raise InvalidInput(f"There is no category {given}. There are: {', '.join(CATEGORIES)}.")
    return given


OfCategory = Annotated[str | None, typer.Option(help="Those of this category.", callback=_is_category)]


@app.command()
def extract(
    *,
    user: Who = None,
    workspace: In = None,
    project_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Whose rule files and linter settings need no proposals, instead of those of each chat.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be read and sent; do neither.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what an earlier extraction has read.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the rules that chats ask for, each with the words that it rests on."""
    from recollect.rules.models import Extracted

    async def work(services: Services) -> Extracted | Estimate:
        from recollect.db.tenancy import Caller
        from recollect.rules.material import Asked
        from recollect.rules.rule_files import texts_in, texts_of

        author = await acting_user(services, user)
        async with services.tenancy.acting_as(Caller.user(author.id)) as tx:
            await check_workspace(services, tx, workspace)
        told = (lambda _: texts_in(project_dir)) if project_dir else partial(texts_of, otherwise=Path())
        asked = Asked(author.id, workspace, origin="command line", texts_of=told, everything=everything)
        if dry_run:
            return await services.extractor.estimate(asked)
        with progress_bar() as progress:
            # How much there is to do is known once everything has been heard.
            bar = progress.add_task("Listening", total=None)

            async def tell(done: int, total: int | None) -> None:
                progress.update(bar, description="Extracting", completed=done, total=total)

            return await services.extractor.extract(asked, tell)

    found = with_services(work)
    if not isinstance(found, Extracted):
        show(found, as_json=as_json)
    elif as_json:
        rules = [_as_found(rule) for rule in found.rules]
        print_json({"rules": rules, "run": found.run.model_dump(mode="json")})
    else:
        _tell(found)


def _as_found(rule: Rule) -> dict[str, Any]:
    told = rule.model_dump(mode="json")
    return {
        **{name: told[name] for name in ("id", "rule_text", "category", "confidence", "scope")},
        "evidence": [{name: quote[name] for name in IN_EVIDENCE} for quote in told["evidence"]],
    }


def _tell(extracted: Extracted) -> None:
    run = extracted.run
    if extracted.rules:
        rows = [
            [
                plain(str(rule.id)),
                plain(f"{rule.confidence or 0:.0%}"),
                plain(rule.category),
                plain(rule.rule_text),
                plain("\n".join(quote.quote for quote in rule.evidence[:3]), keeping="\n"),
            ]
            for rule in extracted.rules
        ]
        out.print(Rows(("id", "sure", "category", "rule", "said"), rows))
    if not run.turns:
        err.print("Nothing is new. `recollect import chats PATH` brings chats in; --all reads all again.")
        return
    told = (
        f"{run.turns:,} turns in {run.chats:,} chats: {run.proposed:,} new, {run.repeated:,} said again."
        f" Made by {run.made_by}."
    )
    if extracted.rules:
        told += " `recollect rules approve ID...` agrees to them, `recollect rules reject ID...` does not."
    err.print(Text(told, style="dim"))


@app.command("list")
def list_(
    *,
    user: Who = None,
    workspace: In = None,
    status: Annotated[
        Literal["pending", "approved", "rejected", "needs_revision", "archived", "all"],
        typer.Option(help="Those of this status."),
    ] = "all",
    category: OfCategory = None,
    project: Annotated[UUID | None, typer.Option(metavar="ID", help="Those of this project.")] = None,
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Those at least this sure.")
    ] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List rules, the newest first; of one extraction, the surest first."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Sequence[Rule]:
        from recollect.rules.models import RuleQuery

        await check_workspace(services, tx, workspace)
        wanted = RuleQuery(workspace, project, None if status == "all" else status, category, min_confidence)
        return await services.rules.list(tx, wanted, limit=limit + 1)

    found = as_user(user, work)
    # Those of one extraction were made at the same moment.
    rules = sorted(found[:limit], key=lambda rule: (rule.created_at, rule.confidence or 0), reverse=True)
    columns = ("id", "status", "confidence", "category", "rule_text", "usage_count")
    show_all(rules, columns, as_json=as_json)
    if len(found) > limit:
        err.print(f"[dim]There are more than {limit}; --limit shows more.[/dim]")


@app.command("show")
def show_(rule: RuleId, *, user: Who = None, as_json: AsJson = False) -> None:
    """Show a rule, with the words that it rests on."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Rule:
        return await services.rules.get(tx, rule)

    found = as_user(user, work)
    show(found if as_json else _readable(found), as_json=as_json)


def _readable(rule: Rule) -> dict[str, Any]:
    """A rule's fields for people: each quote on a line, with where it was said."""
    told = rule.model_dump(mode="json")
    said = [
        f'"{" ".join(each.quote.split())}" (session {each.session or each.chat_id}, turn {each.turn})'
        for each in rule.evidence
    ]
    return {
        **told,
        "scope": " ".join(filter(None, (rule.scope.reach, rule.scope.project))),
        "evidence": "\n".join(said),
        "contradicts": "\n".join(told["contradicts"]),
        "source_session_ids": "\n".join(told["source_session_ids"]),
    }


@app.command()
def approve(rules: RuleIds, *, user: Who = None, reason: Because = None, as_json: AsJson = False) -> None:
    """Agree to rules."""
    _decide(user, rules, "approved", reason, as_json=as_json)


@app.command()
def reject(rules: RuleIds, *, user: Who = None, reason: Because = None, as_json: AsJson = False) -> None:
    """Say no to rules; they are not proposed again."""
    _decide(user, rules, "rejected", reason, as_json=as_json)


@app.command()
def archive(rules: RuleIds, *, user: Who = None, reason: Because = None, as_json: AsJson = False) -> None:
    """Put rules away that hold no longer; they are not proposed again."""
    _decide(user, rules, "archived", reason, as_json=as_json)


@app.command()
def revise(
    rules: RuleIds,
    *,
    notes: Annotated[str, typer.Option(metavar="TEXT", help="What is to change; stays on record.")],
    user: Who = None,
    as_json: AsJson = False,
) -> None:
    """Say that rules need to be put otherwise before anybody agrees to them."""
    _decide(user, rules, "needs_revision", notes, as_json=as_json)


def _decide(
    user: str | None, rules: Sequence[UUID], status: Status, reason: str | None, *, as_json: bool
) -> None:
    ids = list(dict.fromkeys(rules))

    async def work(services: Services, tx: Transaction, _: UUID) -> list[Rule]:
        return [await _decided(services, tx, each, status, reason, among=len(ids)) for each in ids]

    decided = as_user(user, work)
    if as_json:
        told = [rule.model_dump(mode="json") for rule in decided]
        print_json(told if len(told) > 1 else told[0])
        return
    for rule in decided:
        out.print(plain(f"{rule.status}: {rule.rule_text}"))


async def _decided(
    services: Services, tx: Transaction, rule: UUID, status: Status, reason: str | None, *, among: int
) -> Rule:
    try:
        return await services.rules.decide(tx, rule, status, reason)
    except NotFound as error:
        if among == 1:
            raise
        raise NotFound(f"{rule}: {error.detail} So none of them was decided.") from error


@app.command()
def approved(
    *,
    user: Who = None,
    workspace: In = None,
    project: Annotated[UUID | None, typer.Option(metavar="ID", help="Those that hold in it.")] = None,
    category: OfCategory = None,
    as_json: AsJson = False,
) -> None:
    """Hand out the rules that hold; it counts as use."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Sequence[Any]:
        await check_workspace(services, tx, workspace)
        return await services.rules.approved(tx, workspace=workspace, project=project, category=category)

    show_all(as_user(user, work), ("id", "category", "rule_text", "confidence"), as_json=as_json)


@app.command()
def runs(*, user: Who = None, workspace: In = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List extractions, the newest first: when, over what, what they found, what they cost."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Sequence[Run]:
        await check_workspace(services, tx, workspace)
        return await services.rules.runs(tx, workspace=workspace, limit=limit)

    columns = ("started_at", "state", "origin", "turns", "proposed", "repeated", "tokens_sent", "error")
    show_all(as_user(user, work), columns, as_json=as_json)
