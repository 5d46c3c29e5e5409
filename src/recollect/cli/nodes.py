"""recollect nodes: the memory nodes of workflows, of whatever type."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any
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
    show,
    show_all,
    validated,
    with_services,
)
from recollect.cli.memory_options import PAGE, Limit, parsed
from recollect.errors import InvalidInput
from recollect.nodes.models import Definition, Node

if TYPE_CHECKING:
    from recollect.bootstrap import Services
    from recollect.db.tenancy import Transaction

app = typer.Typer(
    help="The memory nodes of workflows: key-value stores, working memory.", no_args_is_help=True
)

User = Annotated[
    str | None, typer.Option("--user", metavar="EMAIL", help="Whose they are; the only user's, if not said.")
]
Name = Annotated[str, typer.Argument(metavar="NODE", help="The workflow's own name for the node.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
TAKES = 'JSON as `recollect nodes types` says, or "-" to read it from standard input.'


@app.command()
def types(as_json: AsJson = False) -> None:
    """List the types of memory node, and what each takes; --json prints their JSON schemas."""
    from recollect.nodes.service import Nodes

    found = Nodes().types()
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
        return
    for each in found:
        out.print(f"[bold]{each.memory_type}[/bold]  {each.description}")
        for name in ("config", "store", "retrieve", "forget"):
            out.print(f"  [dim]{name:<9}[/dim]{_fields(getattr(each, name))}")


@app.command("list")
def list_(
    user: User = None,
    limit: Limit = 100,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: AsJson = False,
) -> None:
    """List a user's memory nodes, by name."""

    async def work(services: Services) -> list[Node]:
        from recollect.db.tenancy import Caller

        of = (await acting_user(services, user)).id
        found: list[Node] = []
        at_most = PAGE if everything else limit + 1
        while True:
            after = found[-1].memory_node_id if found else ""
            async with services.tenancy.acting_as(Caller.user(of)) as tx:
                page = await services.nodes.page(tx, of, after=after, limit=at_most)
            found.extend(page)
            if not everything or len(page) < PAGE:
                return found

    nodes = with_services(work)
    shown = nodes if everything else nodes[:limit]
    show_all(shown, ("memory_node_id", "memory_type", "config", "updated_at"), as_json=as_json)
    if len(shown) < len(nodes):
        err.print(f"[dim]There are more than {limit}; --all lists them all.[/dim]")


@app.command("show")
def show_(node: Name, user: User = None, as_json: AsJson = False) -> None:
    """Print what a memory node is: its type, and how it is set up."""
    show(as_user(user, lambda services, tx, of: services.nodes.get(tx, of, node)), as_json=as_json)


@app.command()
def define(
    node: Name,
    memory_type: Annotated[str, typer.Argument(metavar="TYPE", help="Such as WORKING_MEMORY.")],
    config: Annotated[str, typer.Option(metavar="JSON", help='Such as {"ttl_seconds": 600}.')] = "{}",
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Make a memory node, or set up anew one of the same type; what it keeps stays."""
    wanted = validated(Definition, memory_type=memory_type, config=_object(config, "The configuration"))
    show(as_user(user, lambda services, tx, of: services.nodes.define(tx, of, node, wanted)), as_json=as_json)


@app.command()
def store(
    node: Name,
    item: Annotated[str, typer.Argument(metavar="ITEM", help=TAKES)],
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Put something into a memory node."""
    given = _object(item, "The item")
    show(as_user(user, lambda services, tx, of: services.nodes.store(tx, of, node, given)), as_json=as_json)


@app.command()
def retrieve(
    node: Name,
    query: Annotated[str, typer.Argument(metavar="[QUERY]", help=TAKES)] = "{}",
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Read what a memory node keeps."""
    given = _object(query, "The query")
    answer = as_user(user, lambda services, tx, of: services.nodes.retrieve(tx, of, node, given))
    if as_json:
        print_json(answer)
    else:
        _show_answer(answer)


@app.command()
def forget(
    node: Name,
    selection: Annotated[str, typer.Argument(metavar="[SELECTION]", help=f"{TAKES} None: all.")] = "{}",
    user: User = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete what is selected of what a memory node keeps; all of it if nothing is."""
    given = _object(selection, "The selection")
    if not given and not yes:
        typer.confirm(f"Delete all that {node} keeps, for good?", abort=True, err=True)
    forgotten = as_user(user, lambda services, tx, of: services.nodes.forget(tx, of, node, given))
    if as_json:
        print_json({"forgotten": forgotten})
    else:
        out.print(f"{forgotten:,} forgotten.")


@app.command()
def delete(node: Name, user: User = None, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a memory node and all that it keeps."""
    if not yes:
        typer.confirm(f"Delete {node} and all that it keeps, for good?", abort=True, err=True)

    async def work(services: Services, tx: Transaction, of: UUID) -> None:
        await services.nodes.delete(tx, of, node)

    as_user(user, work)
    if as_json:
        print_json({"deleted": 1})
    else:
        out.print(plain(f"{node} is deleted."))


def _object(given: str, name: str) -> dict[str, Any]:
    found = parsed(sys.stdin.read() if given == "-" else given, name)
    if not isinstance(found, dict):
        raise InvalidInput(f'{name} is a JSON object, such as {{"key": "step"}}.')
    return found


def _fields(schema: dict[str, Any]) -> str:
    needed = schema.get("required", ())
    names = [name if name in needed else f"{name}?" for name in schema.get("properties", ())]
    return ", ".join(names) or "nothing"


def _show_answer(answer: dict[str, Any]) -> None:
    """What there is several of as a table, and whatever else says something."""
    for name, field in answer.items():
        if isinstance(field, list):
            _show_rows(field)
        elif field is not None:
            out.print(f"[dim]{name}[/dim]", plain(field))


def _show_rows(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in rows[0] if rows else ():
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*map(plain, row.values()))
    out.print(table if rows else "[dim]nothing there[/dim]")
