"""recollect rules: what chats ask for, what is agreed to, and how it was found."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import typer
from rich.table import Table

from recollect.cli.console import (
    AsJson,
    acting_user,
    as_user,
    err,
    out,
    plain,
    print_json,
    progress_bar,
    show,
    show_all,
    with_services,
)

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
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="At most this many.")]
Because = Annotated[str | None, typer.Option("--reason", help="Why; stays on record.")]
IN_EVIDENCE = ("quote", "source", "session", "turn")


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
        from recollect.rules.material import Asked
        from recollect.rules.rule_files import texts_in, texts_of

        author = await acting_user(services, user)
        told = (lambda _: texts_in(project_dir)) if project_dir else partial(texts_of, otherwise=Path())
        asked = Asked(author.id, workspace, origin="command line", texts_of=told, everything=everything)
        if dry_run:
            return await services.extractor.estimate(asked)
        with progress_bar() as progress:
            bar = progress.add_task("Extracting", total=None)

            async def tell(done: int, total: int | None) -> None:
                progress.update(bar, completed=done, total=total)

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
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("sure", "category", "rule", "said"):
            table.add_column(column, overflow="fold")
        for rule in extracted.rules:
            said = "\n".join(quote.quote for quote in rule.evidence[:3])
            table.add_row(
                f"{rule.confidence or 0:.0%}",
                plain(rule.category),
                plain(rule.rule_text),
                plain(said, keeping="\n"),
            )
        out.print(table)
    if not run.turns:
        err.print("Nothing is new. `recollect import chats PATH` brings chats in; --all reads all again.")
        return
    err.print(
        f"[dim]{run.turns:,} turns in {run.chats:,} chats: {run.proposed:,} new, {run.repeated:,} said again."
        f" Made by {run.made_by}. `recollect rules approve ID` agrees to one; list shows them all.[/dim]"
    )


@app.command("list")
def list_(
    *,
    user: Who = None,
    workspace: In = None,
    status: Annotated[
        Literal["pending", "approved", "rejected", "needs_revision", "archived", "all"],
        typer.Option(help="Those of this status."),
    ] = "all",
    category: Annotated[str | None, typer.Option(help="Those of this category.")] = None,
    project: Annotated[UUID | None, typer.Option(metavar="ID", help="Those of this project.")] = None,
    min_confidence: Annotated[
        float | None, typer.Option(min=0, max=1, help="Those at least this sure.")
    ] = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List rules, the newest first."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Sequence[Rule]:
        from recollect.rules.models import RuleQuery

        wanted = RuleQuery(workspace, project, None if status == "all" else status, category, min_confidence)
        return await services.rules.list(tx, wanted, limit=limit)

    columns = ("id", "status", "confidence", "category", "rule_text", "usage_count")
    show_all(as_user(user, work), columns, as_json=as_json)


@app.command("show")
def show_(rule: RuleId, *, user: Who = None, as_json: AsJson = False) -> None:
    """Show a rule, with the words that it rests on."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Rule:
        return await services.rules.get(tx, rule)

    show(as_user(user, work), as_json=as_json)


@app.command()
def approve(rule: RuleId, *, user: Who = None, reason: Because = None, as_json: AsJson = False) -> None:
    """Agree to a rule."""
    _decide(user, rule, "approved", reason, as_json=as_json)


@app.command()
def reject(rule: RuleId, *, user: Who = None, reason: Because = None, as_json: AsJson = False) -> None:
    """Say no to a rule; it is not proposed again."""
    _decide(user, rule, "rejected", reason, as_json=as_json)


def _decide(user: str | None, rule: UUID, status: Status, reason: str | None, *, as_json: bool) -> None:
    async def work(services: Services, tx: Transaction, _: UUID) -> Rule:
        return await services.rules.decide(tx, rule, status, reason)

    decided = as_user(user, work)
    if as_json:
        print_json(decided.model_dump(mode="json"))
        return
    out.print(plain(f"{decided.status}: {decided.rule_text}"))


@app.command()
def approved(
    *,
    user: Who = None,
    workspace: In = None,
    project: Annotated[UUID | None, typer.Option(metavar="ID", help="Those that hold in it.")] = None,
    category: Annotated[str | None, typer.Option(help="Those of this category.")] = None,
    as_json: AsJson = False,
) -> None:
    """Hand out the rules that hold; it counts as use."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Sequence[Any]:
        return await services.rules.approved(tx, workspace=workspace, project=project, category=category)

    show_all(as_user(user, work), ("id", "category", "rule_text", "confidence"), as_json=as_json)


@app.command()
def runs(*, user: Who = None, workspace: In = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List extractions, the newest first: when, over what, what they found, what they cost."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Sequence[Run]:
        return await services.rules.runs(tx, workspace=workspace, limit=limit)

    columns = (
        "started_at",
        "state",
        "origin",
        "made_by",
        "chats",
        "turns",
        "proposed",
        "repeated",
        "tokens_sent",
        "tokens_whole",
        "error",
    )
    show_all(as_user(user, work), columns, as_json=as_json)
