"""recollect rules prompts: what models are told before they extract rules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from recollect.cli.console import (
    AsJson,
    acting_user,
    as_user,
    check_workspace,
    err,
    out,
    plain,
    print_json,
    print_value,
    show,
    show_all,
    validated,
    with_services,
)
from recollect.cli.rules import In, Who
from recollect.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction
    from recollect.rules.models import Compared, Prompt, PromptVersion

app = typer.Typer(help="What models are told before they extract rules.", no_args_is_help=True)

PromptId = Annotated[UUID, typer.Argument(metavar="ID")]
TextFile = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="Its text; - is standard input.")
]
Description = Annotated[str | None, typer.Option(help="What it is for.")]
Categories = Annotated[
    list[str] | None, typer.Option("--category", help="Only rules of these categories; repeatable.")
]
Least = Annotated[
    float | None,
    typer.Option("--min-confidence", min=0, max=1, help="A model's rules below it are left out."),
]
SHOWN = ("id", "name", "version", "is_active", "workspace_id", "min_confidence", "updated_at")


@app.command("list")
def list_(*, user: Who = None, workspace: In = None, as_json: AsJson = False) -> None:
    """List the prompts: a workspace's, and those for all."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Sequence[Prompt]:
        await check_workspace(services, tx, workspace)
        return await services.rule_prompts.list(tx, workspace=workspace)

    show_all(as_user(user, work), SHOWN, as_json=as_json)


@app.command("show")
def show_(prompt: PromptId, *, user: Who = None, as_json: AsJson = False) -> None:
    """Print a prompt's text."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Prompt:
        return await services.rule_prompts.get(tx, prompt)

    found = as_user(user, work)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        print_value(found.prompt_text)


@app.command()
def add(
    name: str,
    *,
    workspace: Annotated[
        UUID | None, typer.Option(metavar="ID", help="For this workspace; without it, for all.")
    ] = None,
    file: TextFile = None,
    description: Description = None,
    category: Categories = None,
    min_confidence: Least = None,
    user: Who = None,
    as_json: AsJson = False,
) -> None:
    """Add a prompt, in use from the next extraction on."""
    from recollect.rules.models import NewPrompt

    if file is None:
        raise InvalidInput("Give its text: --file FILE, or --file - for standard input.")
    given = _given(description=description, target_categories=category, min_confidence=min_confidence)
    wanted = validated(NewPrompt, name=name, prompt_text=_read(file), **given)

    async def work(services: Services) -> Prompt:
        by = await acting_user(services, user)
        async with services.tenancy.acting_as(_caller(by.id, workspace)) as tx:
            return await services.rule_prompts.add(tx, wanted, workspace=workspace, by=by.id)

    show(with_services(work), as_json=as_json)
    if workspace is None:
        err.print("It is for everybody; with --workspace ID it would be for that workspace alone.")


@app.command()
def change(
    prompt: PromptId,
    *,
    file: TextFile = None,
    description: Description = None,
    category: Categories = None,
    min_confidence: Least = None,
    active: Annotated[bool | None, typer.Option("--activate/--retire", help="Use it, or no longer.")] = None,
    user: Who = None,
    as_json: AsJson = False,
) -> None:
    """Change a prompt, from the next extraction on; how it was is kept."""
    from recollect.rules.models import PromptChange

    given = _given(
        prompt_text=_read(file) if file else None,
        description=description,
        target_categories=category,
        min_confidence=min_confidence,
        is_active=active,
    )
    wanted = validated(PromptChange, **given)

    async def work(services: Services) -> Prompt:
        by = await acting_user(services, user)
        async with services.tenancy.acting_as(_caller(by.id, by.id)) as tx:
            found = await services.rule_prompts.get(tx, prompt)
        async with services.tenancy.acting_as(_caller(by.id, found.workspace_id)) as tx:
            return await services.rule_prompts.change(tx, prompt, wanted)

    show(with_services(work), as_json=as_json)


@app.command()
def versions(prompt: PromptId, *, user: Who = None, as_json: AsJson = False) -> None:
    """List every earlier text of a prompt, the latest first."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Sequence[PromptVersion]:
        return await services.rule_prompts.versions(tx, prompt)

    show_all(as_user(user, work), ("version", "changed_at", "changed_by", "prompt_text"), as_json=as_json)


@app.command("try")
def try_(
    prompt: PromptId,
    chat: Annotated[list[UUID], typer.Argument(metavar="CHAT...", help="The chats to try it on.")],
    *,
    workspace: In = None,
    file: TextFile = None,
    user: Who = None,
    as_json: AsJson = False,
) -> None:
    """Show what a prompt makes of chats, beside the active one; no rule is stored."""
    from recollect.rules.models import BY_RULES

    async def work(services: Services) -> Compared:
        from recollect.rules.material import Asked

        author = await acting_user(services, user)
        asked = Asked(author.id, workspace, chat_ids=chat, prompt_id=prompt)
        return await services.extractor.compare(asked, _read(file) if file else None)

    compared = with_services(work)
    if compared.tried.run.made_by == BY_RULES:
        err.print("A prompt's text has no effect without a model; `recollect model status` tells of it.")
    if as_json:
        print_json(compared.model_dump(mode="json"))
        return
    for name, tried in (("active", compared.active), ("tried", compared.tried)):
        out.print(f"[bold]{name}[/bold] [dim]({len(tried.rules)} rules, made by {tried.run.made_by})[/dim]")
        for rule in tried.rules:
            out.print(plain(f"  {rule.confidence:.0%} {rule.category}: {rule.rule_text}"))


def _caller(user_id: UUID, workspace: UUID | None) -> Any:
    """What is for all is for whoever runs the server to say."""
    from recollect.db.tenancy import SERVICE, Caller

    return SERVICE if workspace is None else Caller.user(user_id)


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _read(file: Path) -> str:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read as text: {error}.") from error
    if not text.strip():
        raise InvalidInput("A prompt has to say something.")
    return text
