"""The roles that the server signs in as, with the rights they need and no others.

Everything here is within the rights of Supabase's "postgres" role: CREATEROLE, not superuser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import LiteralString

from psycopg import errors as pg
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier, Literal

from recollect.db.turns import PASSING, PATIENCE, Connection, Patience, alone, connected, patiently
from recollect.errors import Misconfigured

# What pg_roles should say, and what makes it so. An "alter role" mentions only what is wrong:
# Postgres refuses even NOSUPERUSER to those who are not superusers.
_ATTRIBUTES: dict[LiteralString, tuple[bool, LiteralString]] = {
    "rolcanlogin": (True, "login"),
    "rolinherit": (False, "noinherit"),
    "rolsuper": (False, "nosuperuser"),
    "rolbypassrls": (False, "nobypassrls"),
    "rolcreaterole": (False, "nocreaterole"),
    "rolcreatedb": (False, "nocreatedb"),
    "rolreplication": (False, "noreplication"),
}

# A transaction whose owner has hung holds locks and keeps the database from tidying up.
IDLE_TIMEOUT = "30s"

# Roles belong to all databases of a server, the lock to one: from another database somebody may
# create the same role or alter it, which Postgres calls "tuple concurrently updated" (XX000).
_PASSING = (*PASSING, pg.DuplicateObject, pg.UniqueViolation, pg.InternalError_)


@dataclass(frozen=True)
class Login:
    name: str
    password: str = field(repr=False)
    member_of: tuple[str, ...]
    """Roles it may become by "set role", and whose rights it has only then."""
    inherits: tuple[str, ...] = ("recollect_gate",)
    """Roles whose rights it always has, and that it cannot become."""
    statement_timeout: str = "0"
    """How long one statement may take, waiting for others included; 0 means for ever."""
    # "extensions" is where Supabase keeps them.
    search_path: tuple[str, ...] = ("public", "extensions")
    deployment: str = ""
    """Tells the deployment that it belongs to: one that has another secret must not take it over."""


class AnotherDeployment(Misconfigured):
    """The server's logins belong to a deployment with another RECOLLECT_SECRET_KEY."""

    code = "another_deployment"


async def ensure_logins(
    conninfo: str, logins: Sequence[Login], *, take_over: bool = False, patience: Patience = PATIENCE
) -> None:
    """Create the logins, or put right what has become of them."""
    for login in logins:
        if not login.password:
            raise Misconfigured(f"The login {login.name} needs a password.")
    async with connected(conninfo) as conn:

        async def work() -> None:
            async with alone(conn, "recollect logins", patience):
                for login in logins:
                    if not take_over:
                        await _refuse_another_deployment(conn, login)
                    await _ensure(conn, login)

        await patiently(work, "The server's logins", patience, _PASSING)


async def _ensure(conn: Connection, login: Login) -> None:
    try:
        await _ensure_role(conn, login)
        await _ensure_memberships(conn, login)
        await _ensure_connect(conn, login)
    except pg.InsufficientPrivilege as error:
        why = ". ".join(filter(None, (error.diag.message_primary, error.diag.message_detail)))
        raise Misconfigured(
            f'"{conn.info.user}" cannot set up the login {login.name}: {why} Do it as the role '
            "that created that login, or as a superuser."
        ) from error
    except pg.UndefinedObject as error:
        raise Misconfigured(
            f"The login {login.name} cannot be set up: {error.diag.message_primary}. The "
            'migrations make the roles it needs: run "recollect migrate".'
        ) from error
    await _refuse_bypass(conn, login)


async def _ensure_role(conn: Connection, login: Login) -> None:
    # The verifier, so that the password reaches no log. It is set every time: only superusers can
    # read what is stored, and a few failed trials to sign in get an address banned on Supabase.
    verifier = conn.pgconn.encrypt_password(
        login.password.encode(), login.name.encode(), b"scram-sha-256"
    ).decode()
    async with conn.cursor(row_factory=tuple_row) as cursor:
        columns = SQL(", ").join(map(Identifier, _ATTRIBUTES))
        await cursor.execute(SQL("select {} from pg_roles where rolname = %s").format(columns), [login.name])
        found = await cursor.fetchone()
    verb, attributes = SQL("create"), "login noinherit"
    if found:
        verb = SQL("alter")
        pairs = zip(found, _ATTRIBUTES.values(), strict=True)
        attributes = " ".join(word for is_so, (wanted, word) in pairs if is_so is not wanted)
    await conn.execute(
        SQL("{} role {} {} password {}").format(
            verb, Identifier(login.name), SQL(attributes), Literal(verifier)
        )
    )
    name = Identifier(login.name)
    # Kept with the role, since a pooler passes no options on.
    for setting, value in (
        ("statement_timeout", login.statement_timeout),
        ("idle_in_transaction_session_timeout", IDLE_TIMEOUT),
        # Statements keep the plan that they got when the tables were empty. At the price that pages have on a
        # spinning disk that plan would be to read the whole table, however large it grows.
        ("random_page_cost", "1.1"),
    ):
        await conn.execute(SQL("alter role {} set {} = {}").format(name, Identifier(setting), Literal(value)))
    await conn.execute(
        SQL("alter role {} set search_path = {}").format(
            name, SQL(", ").join(map(Identifier, login.search_path))
        )
    )
    await conn.execute(SQL("comment on role {} is {}").format(name, Literal(login.deployment)))


async def _refuse_another_deployment(conn: Connection, login: Login) -> None:
    """A new password would lock the servers out that use the login now, and none of the keys and
    sessions they have issued would be known here."""
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(
            "select shobj_description(oid, 'pg_authid') from pg_roles where rolname = %s", [login.name]
        )
        row = await cursor.fetchone()
    if row and row[0] and row[0] != login.deployment:
        raise AnotherDeployment(
            f"{AnotherDeployment.title()} Set the same RECOLLECT_SECRET_KEY here (it is in that server's "
            'home, in secret.key), or take them over with "recollect migrate --take-over": then its API '
            "keys and sessions end, and its servers have to be restarted with the new secret."
        )


async def _ensure_memberships(conn: Connection, login: Login) -> None:
    # role -> admin, inherit, set: as in pg_auth_members
    wanted = dict.fromkeys(login.member_of, (False, False, True))
    wanted |= dict.fromkeys(login.inherits, (False, True, False))
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(
            "select role.rolname, grantor.rolname, m.admin_option, m.inherit_option, m.set_option"
            " from pg_auth_members m join pg_roles role on role.oid = m.roleid"
            " join pg_roles grantor on grantor.oid = m.grantor"
            " join pg_roles login on login.oid = m.member where login.rolname = %s",
            [login.name],
        )
        found = await cursor.fetchall()
    kept = {role for role, _, *options in found if wanted.get(role) == tuple(options)}
    for role, grantor, *options in found:
        if wanted.get(role) != tuple(options):
            await conn.execute(
                SQL("revoke {} from {} granted by {} cascade").format(
                    Identifier(role), Identifier(login.name), Identifier(grantor)
                )
            )
    for role, (_, inherit, set_role) in wanted.items():
        if role not in kept:
            await conn.execute(
                SQL("grant {} to {} with admin false, inherit {}, set {}").format(
                    Identifier(role), Identifier(login.name), Literal(inherit), Literal(set_role)
                )
            )


async def _ensure_connect(conn: Connection, login: Login) -> None:
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(
            "select current_database(), has_database_privilege(%s, current_database(), 'connect')",
            [login.name],
        )
        [(database, may_connect)] = await cursor.fetchall()
    if not may_connect:
        await conn.execute(
            SQL("grant connect on database {} to {}").format(Identifier(database), Identifier(login.name))
        )


async def _refuse_bypass(conn: Connection, login: Login) -> None:
    """Memberships of its roles in turn are not ours to revoke, but must not open a back door."""
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(
            "select rolname from pg_roles where (rolsuper or rolbypassrls)"
            " and pg_has_role(%s, oid, 'member') and rolname <> all (%s)",
            [login.name, [*login.member_of, *login.inherits]],
        )
        found = [role for (role,) in await cursor.fetchall()]
    if found:
        raise Misconfigured(
            f"Through one of its roles the login {login.name} is a member of {', '.join(found)}, "
            "which row security does not bind. Revoke that membership."
        )
