"""recollect brain: facts about a user or a company, one per slug."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer
from rich.text import Text

from recollect.brain.models import Fact, FactChange, FoundFact, Owner, Saved, UnknownFact
from recollect.cli.console import (
    AsJson,
    err,
    out,
    plain,
    print_json,
    print_value,
    progress_bar,
    show,
    show_all,
    waiting,
    with_services,
)
from recollect.cli.memory_options import PAGE, Because, Limit, Metadata, Query, diff_of, parsed
from recollect.errors import InvalidInput

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Caller, Transaction

T = TypeVar("T")
Work = Callable[["Services", "Transaction", Owner], Awaitable[T]]

app = typer.Typer(help="Facts about users and companies, one per slug.", no_args_is_help=True)

User = Annotated[
    str | None,
    typer.Option("--user", metavar="EMAIL", help="About this user; beside --company: who does it."),
]
Company = Annotated[
    str | None, typer.Option("--company", metavar="ID", help="About this company; its name will do.")
]
OnlyUser = Annotated[str | None, typer.Option("--user", metavar="EMAIL", help="About this user.")]
Slug = Annotated[str, typer.Argument(metavar="SLUG")]
OfCategory = Annotated[str | None, typer.Option("--category", metavar="NAME", help="Of this category.")]


@app.command("list")
def list_(
    *,
    user: User = None,
    company: Company = None,
    category: OfCategory = None,
    limit: Limit = 100,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what is known, by slug."""

    async def work(services: Services) -> list[Fact]:
        found: list[Fact] = []
        at_most = PAGE if everything else limit + 1
        while True:
            after = found[-1].slug if found else ""
            async with acting(services, user, company) as (tx, owner):
                page = await services.brain.facts(tx, owner, category=category, after=after, limit=at_most)
            found.extend(page)
            if not everything or len(page) < PAGE:
                return found

    facts = with_services(work)
    shown = facts if everything else facts[:limit]
    show_all(shown, ("slug", "content", "category", "updated_at"), as_json=as_json)
    if len(shown) < len(facts):
        err.print(f"[dim]There are more than {limit}; --all lists them all.[/dim]")


@app.command()
def get(slug: Slug, user: User = None, company: Company = None, as_json: AsJson = False) -> None:
    """Print what is known under a slug; --json prints all of it."""

    async def work(services: Services, tx: Transaction, owner: Owner) -> Fact:
        return await services.brain.get(tx, owner, slug)

    fact = _about(user, company, work)
    if as_json:
        print_json(fact.model_dump(mode="json"))
    else:
        print_value(fact.content)


@app.command("set")
def set_(
    slug: Slug,
    content: Annotated[str, typer.Argument(metavar="CONTENT", help='Or "-" to read it from standard input.')],
    *,
    user: User = None,
    company: Company = None,
    category: Annotated[str | None, typer.Option(metavar="NAME", help="What it belongs to.")] = None,
    metadata: Metadata = None,
    reason: Because = None,
    as_json: AsJson = False,
) -> None:
    """Say what is known under a slug, in place of all that was, and show what changed."""
    memory = {
        "slug": slug,
        "content": sys.stdin.read() if content == "-" else content,
        "category": category,
        **({} if metadata is None else {"extra_metadata": parsed(metadata, "metadata")}),
    }

    async def work(services: Services, tx: Transaction, owner: Owner) -> tuple[str, Fact]:
        before = ""
        with suppress(UnknownFact):
            before = (await services.brain.get(tx, owner, slug)).content
        async with tx.still_open() as writing, waiting("Saving"):
            return before, await services.brain.put(writing, owner, memory, reason=reason)

    before, fact = _about(user, company, work)
    if as_json:
        print_json(fact.model_dump(mode="json"))
    else:
        out.print(diff_of(before, fact.content))


@app.command()
def search(
    query: Query,
    *,
    user: User = None,
    company: Company = None,
    category: OfCategory = None,
    limit: Limit = 10,
    as_json: AsJson = False,
) -> None:
    """Find facts by words and by meaning, the best first."""

    async def work(services: Services, tx: Transaction, owner: Owner) -> list[FoundFact]:
        async with waiting("Searching"):
            return await services.brain.search(tx, owner, query, category=category, limit=limit)

    found = _about(user, company, work)
    if as_json or not found:
        show_all(found, (), as_json=as_json)
        return
    for each in found:
        out.print(f"[bold]{each.score:.3f}[/bold]", plain(each.content), Text(each.slug, style="dim"))


@app.command()
def delete(
    slug: Slug, user: User = None, company: Company = None, reason: Because = None, as_json: AsJson = False
) -> None:
    """Forget what is known under a slug; undo brings it back."""

    async def work(services: Services, tx: Transaction, owner: Owner) -> list[str]:
        async with waiting("Deleting"):
            return await services.brain.delete(tx, owner, [slug], reason=reason)

    deleted = _about(user, company, work)
    if not deleted:
        raise UnknownFact
    if as_json:
        print_json({"deleted": len(deleted)})
    else:
        out.print(f"{slug} is forgotten.")


@app.command()
def history(
    slug: Slug,
    user: User = None,
    company: Company = None,
    limit: Limit = 100,
    as_json: AsJson = False,
) -> None:
    """Show what became of a slug, newest first; also of one that is gone."""

    async def work(services: Services, tx: Transaction, owner: Owner) -> list[FactChange]:
        return await services.brain.history(tx, owner, slug, limit=limit)

    changes = _about(user, company, work)
    if as_json:
        show_all(changes, (), as_json=True)
        return
    for each in changes:
        _show_change(each)


@app.command()
def undo(
    slug: Slug, user: User = None, company: Company = None, reason: Because = None, as_json: AsJson = False
) -> None:
    """Take back the last change of a slug, and show what that changes."""

    async def work(services: Services, tx: Transaction, owner: Owner) -> FactChange:
        async with waiting("Undoing"):
            return await services.brain.undo(tx, owner, slug, reason=reason)

    change = _about(user, company, work)
    if as_json:
        print_json(change.model_dump(mode="json"))
    else:
        _show_change(change)


@app.command()
def save(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help='A JSON list of memories; "-" is standard input.')
    ],
    user: User = None,
    company: Company = None,
    reason: Because = None,
    as_json: AsJson = False,
) -> None:
    """Save memories, each under its slug: [{"slug", "content", "category", "extra_metadata"}]."""
    memories = parsed(read_file(file).decode(errors="surrogateescape"), str(file))
    if not isinstance(memories, list):
        raise InvalidInput(f"{file} holds no list of memories.")

    async def work(services: Services, tx: Transaction, owner: Owner) -> Saved:
        async with waiting("Saving"):
            return await services.brain.save(tx, owner, memories, reason=reason)

    _tell(_about(user, company, work), as_json=as_json)


@app.command()
def load(
    *,
    user: OnlyUser = None,
    company: Company = None,
    all_companies: Annotated[bool, typer.Option("--all-companies", help="Every company.")] = False,
    all_users: Annotated[bool, typer.Option("--all-users", help="Every user.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make facts of what profiles and companies say already; the same again changes nothing."""
    if [user is not None, company is not None, all_companies, all_users].count(True) != 1:
        raise InvalidInput("Say which: --user EMAIL, --company ID, --all-companies or --all-users.")
    if not (all_companies or all_users):
        _tell(with_services(lambda services: _load_one(services, user, company)), as_json=as_json)
        return
    loaded = with_services(lambda services: _load_all(services, companies=all_companies))
    show(loaded, as_json=as_json)
    if loaded["failed_companies" if all_companies else "failed_users"]:
        raise typer.Exit(1)


@app.command()
def reconcile(user: OnlyUser = None, company: Company = None, as_json: AsJson = False) -> None:
    """Find facts without their memory and memories without their fact, and mend them; of all, or of one."""

    async def work(services: Services) -> dict[str, int]:
        only = await owner_of(services, user, company) if user or company else None
        async with waiting("Reconciling"):
            return (await services.brain.reconcile(only)).counts

    mended = with_services(work)
    show(mended, as_json=as_json)
    if mended["failed"]:
        raise typer.Exit(1)


async def _load_one(services: Services, user: str | None, company: str | None) -> Saved:
    from recollect.brain.loading import Loading

    loading = Loading(services.tenancy, services.brain, services.settings.brain_language)
    owner = await owner_of(services, user, company)
    async with waiting("Loading"):
        if owner.kind == "company":
            return await loading.load_company_memories(owner.id)
        return await loading.load_user_memories(owner.id)


async def _load_all(services: Services, *, companies: bool) -> dict[str, int]:
    from recollect.brain.loading import Loading

    loading = Loading(services.tenancy, services.brain, services.settings.brain_language)
    with progress_bar() as bar:
        task = bar.add_task("Loading", total=None)

        async def progress(done: int, total: int, checkpoint: Mapping[str, Any]) -> None:
            del checkpoint  # this process goes on to the end, or not at all
            bar.update(task, completed=done, total=total)

        return await (loading.load_all_companies if companies else loading.load_all_users)(progress)


def _about(user: str | None, company: str | None, work: Work[T]) -> T:
    async def run(services: Services) -> T:
        async with acting(services, user, company) as (tx, owner):
            return await work(services, tx, owner)

    return with_services(run)


@asynccontextmanager
async def acting(
    services: Services, user: str | None, company: str | None
) -> AsyncIterator[tuple[Transaction, Owner]]:
    """What is done as the user; about a company, as the service where no user is named."""
    caller, owner = await _named(services, user, company)
    async with services.tenancy.acting_as(caller, for_one_call=True) as tx:
        yield tx, owner


async def owner_of(services: Services, user: str | None, company: str | None) -> Owner:
    """Whom one of the options names."""
    if user is not None and company is not None:
        raise InvalidInput("Give --user or --company, not both.")
    return (await _named(services, user, company))[1]


async def _named(services: Services, user: str | None, company: str | None) -> tuple[Caller, Owner]:
    from recollect.db.tenancy import SERVICE, Caller

    caller = SERVICE
    if user is not None:
        found = await services.access.find_user(user)
        caller, owner = Caller.user(found.id), Owner("user", found.id)
    elif company is None:
        raise InvalidInput("Say whom it is about: --user EMAIL, or --company ID.")
    if company is not None:
        try:
            owner = Owner("company", UUID(company))
        except ValueError:
            async with services.tenancy.acting_as(caller, for_one_call=True) as tx:
                owner = await services.brain.company_called(tx, company)
    return caller, owner


def read_file(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error


def _show_change(change: FactChange) -> None:
    by = f"by {change.actor}" if change.actor else "by the server"
    out.print(f"[bold]{change.event}[/bold]  [dim]{change.made_at:%Y-%m-%d %H:%M:%S}  {by}[/dim]")
    if change.reason:
        out.print(Text("   "), plain(change.reason), sep="", style="italic")
    if change.before != change.after:
        out.print(Text("   "), diff_of(change.before or "", change.after or ""), sep="")


def _tell(saved: Saved, *, as_json: bool) -> None:
    if as_json:
        print_json(saved.model_dump())
    else:
        out.print(
            f"{saved.saved_count:,} saved, {saved.created:,} of them new; {saved.failed_count:,} failed."
        )
        for error in saved.errors:
            err.print(plain(error))
    if not saved.success:
        raise typer.Exit(1)
