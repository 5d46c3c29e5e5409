"""recollect memories: what was said, and the facts in it. All is done as the user named would do it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer
from rich.text import Text

from recollect.api.memory_models import (
    About,
    MemoryChange,
    NewFeedback,
    NewMemory,
    Search,
    WantedContext,
    read_filters,
)
from recollect.cli.console import (
    AsJson,
    err,
    out,
    plain,
    print_json,
    print_value,
    show,
    show_all,
    validated,
    waiting,
)
from recollect.cli.memory_options import (
    PAGE,
    TYPES,
    Actor,
    Because,
    Expired,
    Filters,
    In,
    Limit,
    MemoryId,
    Metadata,
    Names,
    Query,
    Superseded,
    as_user,
    diff_of,
    named,
    pages_for,
    parsed,
    to_memory,
)
from recollect.engine.models import Added, Context, EntityInUse, Found, Memory, NoEntity, Version, Where
from recollect.errors import InvalidInput

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction

COLUMNS = ("text", *TYPES, "created_at", "id")

app = typer.Typer(help="Memories: what was said, and the facts in it.", no_args_is_help=True)


@app.command()
def add(  # noqa: PLR0913 - each is an option, given by name
    text: Annotated[str, typer.Argument(metavar="TEXT", help='Or "-" to read it from standard input.')],
    *,
    user: Actor,
    about: Names = None,
    workspace: In = None,
    messages: Annotated[
        bool, typer.Option("--messages", help='The text is JSON: [{"role": "user", "content": "..."}].')
    ] = False,
    as_said: Annotated[bool, typer.Option("--as-said", help="Keep what was said; distil no facts.")] = False,
    metadata: Metadata = None,
    reason: Because = None,
    as_json: AsJson = False,
) -> None:
    """Remember a text or a conversation."""
    if not about:
        raise NoEntity("Say whom it is about, with --about NAME.")
    said = sys.stdin.read() if text == "-" else text
    wanted = validated(
        NewMemory,
        **named(about),
        **({"messages": parsed(said, "messages")} if messages else {"text": said}),
        **({} if metadata is None else {"metadata": parsed(metadata, "metadata")}),
        workspace=workspace,
        infer=not as_said,
        reason=reason,
    )

    async def work(services: Services, tx: Transaction) -> Added:
        async with waiting("Remembering"):
            return await services.engine.add(tx, wanted.addition)

    added = as_user(user, workspace, work, writing=True)
    if as_json:
        print_json(added.model_dump(mode="json"))
        return
    show_all(added.results, ("event", "text", "id"), as_json=False)
    for each in added.not_understood:
        err.print(plain(f"Not understood: {each}"))


@app.command()
def search(  # noqa: PLR0913 - each is an option, given by name
    query: Query,
    *,
    user: Actor,
    about: Names = None,
    workspace: In = None,
    filters: Filters = None,
    limit: Limit = 10,
    superseded: Superseded = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say what each score is made of.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find memories by words and by meaning, the best first."""
    wanted = validated(
        Search,
        **named(about),
        query=query,
        workspace=workspace,
        filters=read_filters(filters),
        limit=limit,
        superseded=superseded,
        explain=explain,
    )

    async def work(services: Services, tx: Transaction) -> list[Found]:
        return await services.engine.search(tx, wanted.wanted)

    found = as_user(user, workspace, work)
    if as_json or not found:
        show_all(found, (), as_json=as_json)
        return
    for each in found:
        out.print(f"[bold]{each.score:.3f}[/bold]", plain(each.text), Text(str(each.id), style="dim"))
        if each.breakdown is not None:
            parts = {name: value for name, value in each.breakdown if value is not None}
            out.print(
                Text(
                    "      " + "  ".join(f"{name} {value:.3f}" for name, value in parts.items()), style="dim"
                )
            )


@app.command()
def context(
    query: Query,
    *,
    user: Actor,
    about: Names = None,
    workspace: In = None,
    filters: Filters = None,
    budget: Annotated[int, typer.Option(min=1, max=1_000_000, help="Tokens that it may take.")] = 1_000,
    as_json: AsJson = False,
) -> None:
    """Print the best memories as text for a prompt, within a budget of tokens."""
    wanted = validated(
        WantedContext,
        **named(about),
        query=query,
        workspace=workspace,
        filters=read_filters(filters),
        budget_tokens=budget,
    )

    async def work(services: Services, tx: Transaction) -> Context:
        return await services.engine.context(tx, wanted.wanted, budget_tokens=wanted.budget_tokens)

    made = as_user(user, workspace, work)
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    print_value(made.text)
    err.print(f"[dim]{made.tokens:,} of {made.budget:,} tokens; {made.saved:,} saved.[/dim]")


@app.command("list")
def list_(  # noqa: PLR0913 - each is an option, given by name
    *,
    user: Actor,
    about: Names = None,
    workspace: In = None,
    filters: Filters = None,
    limit: Limit = 100,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    expired: Expired = False,
    superseded: Superseded = False,
    as_json: AsJson = False,
) -> None:
    """List memories, the newest first."""
    entities = validated(About, **named(about)).entities
    where = Where(entities, workspace, read_filters(filters), expired, superseded)

    async def fetch(services: Services, tx: Transaction, last: Memory | None) -> Sequence[Memory]:
        after = (last.created_at, last.id) if last else None
        at_most = PAGE if everything else limit + 1
        return await services.engine.list(tx, where, after=after, limit=at_most)

    memories = pages_for(user, workspace, fetch, everything=everything)
    shown = memories if everything else memories[:limit]
    show_all(shown, COLUMNS, as_json=as_json)
    if len(shown) < len(memories):
        err.print(f"[dim]There are more than {limit}; --all lists them all.[/dim]")


@app.command("show")
def show_(memory: MemoryId, user: Actor, as_json: AsJson = False) -> None:
    """Show one memory, and which others say nearly the same."""

    async def work(services: Services, tx: Transaction) -> dict[str, Any]:
        found = await services.engine.get(tx, memory)
        async with tx.still_open() as reading:
            links = await services.engine.links(reading, memory)
        nearly_same = [each.model_dump(mode="json") for each in links]
        return {**found.model_dump(mode="json"), "links": nearly_same}

    show(as_user(user, None, work), as_json=as_json)


@app.command()
def update(
    memory: MemoryId,
    *,
    user: Actor,
    text: Annotated[str | None, typer.Option(help="What it is to say.")] = None,
    metadata: Metadata = None,
    expires: Annotated[
        str | None, typer.Option(metavar="WHEN", help='Such as 2030-01-31T12:00:00Z, or "never".')
    ] = None,
    reason: Because = None,
    as_json: AsJson = False,
) -> None:
    """Change a memory, and show what changed."""
    wanted = validated(
        MemoryChange,
        text=text,
        metadata=None if metadata is None else parsed(metadata, "metadata"),
        **({} if expires is None else {"expires_at": None if expires == "never" else expires}),
        reason=reason,
    )

    async def work(services: Services, tx: Transaction) -> tuple[Memory, Memory]:
        before = await services.engine.get(tx, memory)
        async with tx.still_open() as writing:
            return before, await services.engine.update(writing, memory, **wanted.changes)

    before, after = to_memory(memory, user, work)
    if as_json:
        print_json(after.model_dump(mode="json"))
        return
    out.print(diff_of(before.text, after.text))
    out.print(f"[dim]version {after.version}[/dim]")


@app.command()
def delete(
    memory: Annotated[UUID | None, typer.Argument(metavar="[ID]")] = None,
    *,
    user: Actor,
    about: Names = None,
    workspace: In = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything, whomever it is about.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    reason: Because = None,
    as_json: AsJson = False,
) -> None:
    """Delete one memory, or all about somebody; for a while each can be restored."""
    entities = validated(About, **named(about)).entities
    if (memory is not None) == (bool(about) or everything):
        raise InvalidInput("Give the id of one memory, or --about somebody, or --all.")
    if memory is not None:
        to_memory(memory, user, lambda services, tx: services.engine.delete(tx, memory, reason=reason))
        deleted = 1
    else:
        where = Where(entities, workspace, expired=True, superseded=True)
        if not yes:
            count = as_user(user, workspace, lambda services, tx: services.engine.count(tx, where))
            typer.confirm(f"Delete {count:,} memories?", abort=True, err=True)
        deleted = as_user(
            user,
            workspace,
            lambda services, tx: services.engine.delete_all(tx, where, reason=reason),
            writing=True,
        )
    if as_json:
        print_json({"deleted": deleted})
    else:
        out.print(f"{deleted:,} deleted.")


@app.command()
def restore(memory: MemoryId, user: Actor, reason: Because = None, as_json: AsJson = False) -> None:
    """Take a deletion back."""
    restored = as_user(user, None, lambda services, tx: services.engine.restore(tx, memory, reason=reason))
    show(restored, as_json=as_json)


@app.command()
def history(memory: MemoryId, user: Actor, as_json: AsJson = False) -> None:
    """Show how a memory came to be as it is, oldest first; also of a deleted one."""

    async def work(services: Services, tx: Transaction) -> Sequence[Version]:
        return await services.engine.history(tx, memory)

    versions = as_user(user, None, work)
    if as_json:
        show_all(versions, (), as_json=True)
        return
    for each in versions:
        by = f"by {each.actor}" if each.actor else "by the server"
        out.print(
            f"[bold]{each.version}  {each.event}[/bold]  [dim]{each.made_at:%Y-%m-%d %H:%M:%S}  {by}[/dim]"
        )
        if each.reason:
            out.print(Text("   "), plain(each.reason), sep="", style="italic")
        if each.previous != each.text:
            out.print(Text("   "), diff_of(each.previous or "", each.text), sep="")


@app.command()
def feedback(
    memory: MemoryId,
    verdict: Annotated[
        str, typer.Argument(metavar="VERDICT", help="positive, negative, very-negative or none.")
    ],
    user: Actor,
    reason: Because = None,
    as_json: AsJson = False,
) -> None:
    """Note whether a memory was any good."""
    said = None if verdict == "none" else verdict.upper().replace("-", "_")
    wanted = validated(NewFeedback, feedback=said, reason=reason)
    judged = to_memory(
        memory,
        user,
        lambda services, tx: services.engine.feedback(tx, memory, wanted.feedback, wanted.reason),
    )
    show(judged, as_json=as_json)


@app.command()
def entities(user: Actor, workspace: In = None, as_json: AsJson = False) -> None:
    """List whom the memories are about."""

    async def fetch(services: Services, tx: Transaction, last: EntityInUse | None) -> Sequence[EntityInUse]:
        after = (last.type, last.name) if last else ("", "")
        return await services.engine.entities(tx, workspace, after=after, limit=PAGE)

    found = pages_for(user, workspace, fetch, everything=True)
    show_all(found, ("type", "name", "memories", "updated_at"), as_json=as_json)
