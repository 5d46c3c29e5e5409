"""recollect brain: what agents propose, are told and can call. All is done as the user named would do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar
from uuid import UUID

import typer

from recollect.cli.console import (
    AsJson,
    acting_for,
    err,
    out,
    print_json,
    print_value,
    show_all,
    with_services,
)
from recollect.cli.memory_options import Actor, Because, Limit, diff_of

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.brain.context import BrainContext
    from recollect.brain.proposals import Proposal, ProposedChange
    from recollect.db.tenancy import Transaction

T = TypeVar("T")

agents_app = typer.Typer(no_args_is_help=True)

Company = Annotated[UUID | None, typer.Option("--company", metavar="ID", help="Of the user's companies.")]
ProposalId = Annotated[UUID, typer.Argument(metavar="ID")]


@agents_app.command()
def proposals(
    *,
    user: Actor,
    company: Company = None,
    state: Annotated[
        Literal["pending", "approved", "rejected", "all"], typer.Option(help="Those in this state.")
    ] = "pending",
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """List what agents have proposed, the newest first."""

    async def work(services: Services, tx: Transaction, _: UUID) -> list[Proposal]:
        from recollect.brain.models import Owner

        owners = [] if company is None else [Owner("company", company)]
        only = None if state == "all" else state
        return await services.proposals.list(tx, *owners, state=only, limit=limit)

    found = _as(user, work)
    show_all(found, ("slug", "content", "agent", "state", "created_at", "id"), as_json=as_json)


@agents_app.command()
def approve(proposal: ProposalId, user: Actor, reason: Because = None, as_json: AsJson = False) -> None:
    """Save what an agent proposed, and show what changed."""

    async def work(services: Services, tx: Transaction, _: UUID) -> tuple[ProposedChange, Proposal]:
        change = await services.proposals.get(tx, proposal)
        return change, await services.proposals.approve(tx, proposal, reason=reason)

    change, approved = _as(user, work)
    if as_json:
        print_json(approved.model_dump(mode="json"))
        return
    out.print(diff_of(change.known or "", change.content))
    out.print(f"[dim]{approved.slug} is known now.[/dim]")


@agents_app.command()
def reject(proposal: ProposalId, user: Actor, reason: Because = None, as_json: AsJson = False) -> None:
    """Leave what is known as it is."""

    async def work(services: Services, tx: Transaction, _: UUID) -> Proposal:
        return await services.proposals.reject(tx, proposal, reason=reason)

    rejected = _as(user, work)
    if as_json:
        print_json(rejected.model_dump(mode="json"))
        return
    out.print(f"{rejected.slug} stays as it is.")


@agents_app.command()
def tools(
    form: Annotated[
        Literal["openai", "responses", "anthropic"], typer.Option("--format", help="Whose API takes them.")
    ] = "openai",
    company: Annotated[bool, typer.Option(help="Also those for a company.")] = True,
) -> None:
    """Print the tools by which an agent looks up and records facts, as JSON."""
    from recollect.brain.tools import tools_for

    print_json([tool.definition(form) for tool in tools_for(company=company)])


@agents_app.command()
def context(
    query: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="What the answer is about.")] = None,
    *,
    user: Actor,
    company: Company = None,
    budget: Annotated[int, typer.Option(min=1, max=1_000_000, help="Tokens that it may take.")] = 1_000,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="With words on what it is, for a field of instructions.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print what an answer should know about the user, within a budget of tokens."""

    async def work(services: Services, tx: Transaction, user_id: UUID) -> BrainContext:
        from recollect.brain.context import as_instructions, brain_context

        make = as_instructions if instructions else brain_context
        return await make(services.brain, tx, user_id, company_id=company, query=query, budget_tokens=budget)

    made = _as(user, work)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    print_value(made.text)
    err.print(f"[dim]{made.tokens:,} of {made.budget:,} tokens; {made.left_out:,} left out.[/dim]")


def _as(email: str, work: Callable[[Services, Transaction, UUID], Awaitable[T]]) -> T:
    async def run(services: Services) -> T:
        async with acting_for(services, email) as (tx, user_id):
            return await work(services, tx, user_id)

    return with_services(run)
