"""recollect user: the people and programs that memory belongs to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.access.models import NewUser, User
from recollect.cli.console import (
    AsJson,
    address_of,
    fail,
    out,
    print_json,
    show,
    show_all,
    validated,
    with_services,
)

if TYPE_CHECKING:
    from recollect.bootstrap import Services

app = typer.Typer(help="Users.", no_args_is_help=True)

EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL")]
PasswordFromStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read a password from standard input.")
]


@app.command()
def create(
    email: EmailArgument,
    name: Annotated[str | None, typer.Option(help="Full name.")] = None,
    admin: Annotated[bool, typer.Option("--admin", help="May act for all users.")] = False,
    password_stdin: PasswordFromStdin = False,
    as_json: AsJson = False,
) -> None:
    """Create a user with a personal workspace."""
    password = _read_password() if password_stdin else None
    wanted = validated(NewUser, email=email, full_name=name, password=password, is_admin=admin)
    show(with_services(lambda services: services.access.create_user(wanted)), as_json=as_json)


@app.command("list")
def list_(
    after: Annotated[str, typer.Option(help="Start after this e-mail address.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    as_json: AsJson = False,
) -> None:
    """List users by e-mail address."""
    users = with_services(lambda services: services.access.list_users(after=after, limit=limit))
    show_all(users, ("email", "full_name", "is_admin", "last_sign_in_at", "id"), as_json=as_json)


@app.command("show")
def show_one(email: EmailArgument, as_json: AsJson = False) -> None:
    """Show one user."""
    show(with_services(lambda services: services.access.find_user(email)), as_json=as_json)


@app.command()
def link(email: EmailArgument, as_json: AsJson = False) -> None:
    """Make a one-time sign-in link, good for an hour."""

    async def make(services: Services) -> str:
        return f"{address_of(services.settings)}/sign-in?token={await services.access.make_link(email)}"

    url = with_services(make)
    if as_json:
        print_json({"url": url})
    else:
        out.print(url, markup=False)


@app.command()
def admin(
    email: EmailArgument,
    revoke: Annotated[bool, typer.Option("--revoke", help="Take it away again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a user act for all others."""
    changed = with_services(lambda services: services.access.set_admin(email, is_admin=not revoke))
    show(changed, as_json=as_json)


@app.command()
def password(email: EmailArgument) -> None:
    """Set a user's password, asked for or read from standard input; signs them out everywhere."""
    given = _read_password()

    async def change(services: Services) -> User:
        user = await services.access.find_user(email)
        await services.access.set_password(user.id, given)
        return user

    out.print(f"{with_services(change).email} has a new password.", markup=False)


@app.command()
def delete(
    email: EmailArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a user and everything of theirs."""
    if not yes:
        user = with_services(lambda services: services.access.find_user(email))
        typer.confirm(f"Delete {user.email} and everything of theirs, for good?", abort=True)
    with_services(lambda services: services.access.remove_user(email))
    out.print(f"{email} is gone.", markup=False)


def _read_password() -> str:
    if sys.stdin.isatty():
        given: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        given = sys.stdin.readline().rstrip("\n")
    if len(given) < 8:
        fail("A password has at least 8 characters.")
    return given
