"""recollect model: which one there is, what it was asked, and whether it answers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.console import AsJson, acting_for, err, out, show, show_all, waiting, with_services
from recollect.llm.models import Outcome

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction
    from recollect.llm.models import Call, ModelStatus

app = typer.Typer(help="The model: which one, what it was asked, whether it answers.", no_args_is_help=True)

Whose = Annotated[str | None, typer.Option("--user", metavar="EMAIL", help="This user's; else everybody's.")]


@app.command()
def status(user: Whose = None, as_json: AsJson = False) -> None:
    """Show which model is configured, and what was used of it today (UTC)."""

    async def fetch(services: Services) -> ModelStatus:
        async with _acting(services, user) as tx:
            return await services.llm.status(tx)

    found = with_services(fetch).model_dump(mode="json")
    show(found if as_json else {**found, **found.pop("today")}, as_json=as_json)


@app.command()
def calls(
    user: Whose = None,
    purpose: Annotated[str | None, typer.Option(help="Only those for this purpose.")] = None,
    outcome: Annotated[Outcome | None, typer.Option(help="Only those that ended so.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most this many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List what the model was asked, the newest first: who, what for, tokens, cost, outcome."""

    async def fetch(services: Services) -> list[Call]:
        async with _acting(services, user) as tx:
            return await services.llm.calls(tx, purpose=purpose, outcome=outcome, limit=limit + 1)

    found = with_services(fetch)
    columns = (
        *("started_at", "purpose", "outcome", "model", "input_tokens", "output_tokens", "cost_usd"),
        *("attempts", "took_ms", "user_id", "error"),
    )
    show_all(found[:limit], columns, as_json=as_json)
    if len(found) > limit:
        err.print(f"[dim]There are more than {limit}; --limit lists more of them.[/dim]")


@app.command()
def check(as_json: AsJson = False) -> None:
    """Ask the model one small question, and show what came back."""
    from pydantic import BaseModel, Field

    from recollect.db.tenancy import SERVICE

    class Greeting(BaseModel):
        greeting: str = Field(max_length=200, description="A greeting of a few words.")

    async def ask(services: Services) -> dict[str, object]:
        began = time.monotonic()
        # Elsewhere than on a terminal there would be nothing of it but an empty line.
        async with waiting("Asking the model") if err.is_terminal else nullcontext():
            answer = await services.llm.ask(
                SERVICE,
                purpose="model.check",
                system="You are being tested: do you answer in the form that is asked for?",
                prompt="Greet whoever has set you up, in a few words.",
                answer=Greeting,
                max_tokens=2_048,
            )
        took = round(time.monotonic() - began, 1)
        return {"model": services.llm.name, "greeting": answer.greeting, "seconds": took}

    found = with_services(ask)
    if as_json:
        show(found, as_json=True)
    else:
        out.print(f"{found['model']} answers, in {found['seconds']} s:", markup=False)
        show({"greeting": found["greeting"]}, as_json=False)


@asynccontextmanager
async def _acting(services: Services, user: str | None) -> AsyncIterator[Transaction]:
    from recollect.db.tenancy import SERVICE

    if user is None:
        async with services.tenancy.acting_as(SERVICE) as tx:
            yield tx
    else:
        async with acting_for(services, user) as (tx, _):
            yield tx
