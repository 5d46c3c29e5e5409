"""recollect bank: small namespaced JSON values per user."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from recollect.bank.models import DEFAULT_NAMESPACE, Append, Entry, NamespaceSummary, Put
from recollect.cli.console import (
    AsJson,
    acting_for,
    err,
    out,
    plain,
    print_json,
    print_value,
    show_all,
    validated,
    waiting,
    with_services,
)
from recollect.errors import InvalidInput
from recollect.kit.text import InvalidJson, strict_json

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction

T = TypeVar("T")
PAGE = 1_000

app = typer.Typer(
    help="Small values per user: preferences, recent suggestions, opt-outs.", no_args_is_help=True
)

Owner = Annotated[str, typer.Option("--user", metavar="EMAIL", help="Whose memory it is.")]
InNamespace = Annotated[str, typer.Option("--namespace", "-n", help="Where the key lies.")]
Key = Annotated[str, typer.Argument(metavar="KEY")]
Value = Annotated[str, typer.Argument(metavar="VALUE", help='JSON, or "-" to read it from standard input.')]
AsText = Annotated[bool, typer.Option("--text", help="Take the value as text, not as JSON.")]


@app.command("list")
def list_(
    user: Owner,
    namespace: InNamespace = DEFAULT_NAMESPACE,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="At most this many.")] = 100,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: AsJson = False,
) -> None:
    """List a user's entries in a namespace, by key."""

    async def fetch(services: Services, tx: Transaction, user_id: UUID, after: str) -> list[Entry]:
        at_most = PAGE if everything else limit + 1
        return await services.bank.get_memory(tx, user_id, namespace, after=after, limit=at_most)

    if everything:
        entries = _all_pages(user, fetch, lambda entry: entry.key)
        shown = entries
    else:
        entries = _for_user(user, lambda services, tx, user_id: fetch(services, tx, user_id, ""))
        shown = entries[:limit]
    show_all(shown, ("key", "value", "updated_at"), as_json=as_json, by_alias=True)
    if not shown:
        err.print(f'[dim]The namespace is "{namespace}"; recollect bank namespaces lists those in use.[/dim]')
    if len(shown) < len(entries):
        err.print(f"[dim]There are more than {limit}; --all lists them all.[/dim]")


@app.command()
def get(key: Key, user: Owner, namespace: InNamespace = DEFAULT_NAMESPACE, as_json: AsJson = False) -> None:
    """Print the value under a key: text as it is, everything else as JSON; --json prints the entry."""
    entry = _for_user(
        user, lambda services, tx, user_id: services.bank.get_memory_key(tx, user_id, key, namespace)
    )
    if as_json:
        print_json(_dumped(entry))
    else:
        print_value(entry.value)


@app.command("set")
def set_(
    key: Key,
    value: Value,
    user: Owner,
    namespace: InNamespace = DEFAULT_NAMESPACE,
    text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Create or replace the value under a key."""
    wanted = validated(Put, key=key, value=_parsed(value, as_text=text), namespace=namespace)
    entry = _for_user(user, lambda services, tx, user_id: services.bank.put(tx, user_id, wanted))
    _confirm(entry, f"{key} is set.", as_json=as_json)


@app.command()
def append(
    key: Key,
    item: Value,
    *,
    user: Owner,
    keep: Annotated[int, typer.Option(help="How many of the last ones stay.")] = 10,
    namespace: InNamespace = DEFAULT_NAMESPACE,
    text: AsText = False,
    as_json: AsJson = False,
) -> None:
    """Add to the list under a key, keeping its last entries."""
    parsed = _parsed(item, as_text=text)
    wanted = validated(Append, key=key, item=parsed, keep=keep, namespace=namespace)
    entry = _for_user(user, lambda services, tx, user_id: services.bank.append(tx, user_id, wanted))
    _confirm(entry, f"{key} has {len(entry.value)} now.", as_json=as_json)


@app.command()
def delete(
    key: Key, user: Owner, namespace: InNamespace = DEFAULT_NAMESPACE, as_json: AsJson = False
) -> None:
    """Delete the value under a key."""
    _for_user(
        user, lambda services, tx, user_id: services.bank.delete_memory_key(tx, user_id, key, namespace)
    )
    _report("deleted", 1, as_json=as_json)


@app.command()
def namespaces(user: Owner, as_json: AsJson = False) -> None:
    """List the namespaces that a user has entries in."""

    async def fetch(services: Services, tx: Transaction, user_id: UUID, after: str) -> list[NamespaceSummary]:
        return await services.bank.namespaces(tx, user_id, after=after, limit=PAGE)

    found = _all_pages(user, fetch, lambda summary: summary.namespace)
    show_all(found, ("namespace", "entries", "updated_at"), as_json=as_json, by_alias=True)


@app.command()
def clear(
    user: Owner,
    namespace: InNamespace = DEFAULT_NAMESPACE,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", help="In every namespace.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete all of a user's entries in a namespace, or in every one."""
    where = "in every namespace" if all_namespaces else f'in the namespace "{namespace}"'
    if not yes:
        typer.confirm(f"Delete all entries of {user} {where}, for good?", abort=True, err=True)
    chosen = None if all_namespaces else namespace
    deleted = _for_user(user, lambda services, tx, user_id: services.bank.clear(tx, user_id, chosen))
    _report("deleted", deleted, as_json=as_json)


@app.command()
def purge(as_json: AsJson = False) -> None:
    """Delete what has outlived RECOLLECT_BANK_RETENTION_DAYS, for all users."""

    async def work(services: Services) -> int:
        async with waiting("Purging"):
            return await services.bank.purge(services.tenancy)

    _report("purged", with_services(work), as_json=as_json)


@app.command()
def reseal(as_json: AsJson = False) -> None:
    """Bring stored values into the form that the encryption settings ask for now."""

    async def work(services: Services) -> int:
        async with waiting("Resealing"):
            return await services.bank.reseal(services.tenancy)

    _report("resealed", with_services(work), as_json=as_json)


def _for_user(email: str, work: Callable[[Services, Transaction, UUID], Awaitable[T]]) -> T:
    """Do it as the user would, in one transaction."""

    async def run(services: Services) -> T:
        async with acting_for(services, email) as (tx, user_id):
            return await work(services, tx, user_id)

    return with_services(run)


def _all_pages(
    email: str,
    fetch: Callable[[Services, Transaction, UUID, str], Awaitable[list[T]]],
    position: Callable[[T], str],
) -> list[T]:
    async def run(services: Services) -> list[T]:
        found: list[T] = []
        while True:
            async with acting_for(services, email) as (tx, user_id):
                page = await fetch(services, tx, user_id, position(found[-1]) if found else "")
            found.extend(page)
            if len(page) < PAGE:
                return found

    return with_services(run)


def _parsed(given: str, *, as_text: bool) -> Any:
    read = sys.stdin.buffer.read() if given == "-" else given.encode(errors="surrogateescape")
    if as_text:
        try:
            return read.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput("The value is not UTF-8.") from error
    try:
        return strict_json(read)
    except InvalidJson as error:
        raise InvalidInput(
            f"{error.detail.replace('The body', 'The value')} Text goes in quotes of its own "
            f"('\"warm\"'), or as it is with --text."
        ) from error


def _confirm(entry: Entry, sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_dumped(entry))
    else:
        out.print(plain(sentence))


def _report(what: str, count: int, *, as_json: bool) -> None:
    if as_json:
        print_json({what: count})
    else:
        out.print(f"{count:,} {what}.")


def _dumped(entry: Entry) -> dict[str, Any]:
    return entry.model_dump(mode="json", by_alias=True)
