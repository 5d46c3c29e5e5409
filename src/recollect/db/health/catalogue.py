"""The database's side: whether it answers, and whether it is as our migrations left it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row

from recollect.db import migrate
from recollect.db.database import Database
from recollect.db.health.check import Check
from recollect.db.health.expected import expected
from recollect.db.health.queue import of_queue
from recollect.db.migrate import Login, Migration
from recollect.db.queries import Queries, Query
from recollect.errors import RecollectError

CONNECT_SECONDS = 5
PATIENCE_SECONDS = 30
SLOW_CLOCK, WRONG_CLOCK = 2, 30
ROLES = ("anon", "authenticated", "service_role", "recollect_gate", "recollect_queue")
MIGRATE = 'Run "recollect migrate".'

Connection = psycopg.AsyncConnection[DictRow]

queries = Queries(__package__)


async def of_database(database: Database) -> list[Check]:
    try:
        conn = await _connect(database.admin)
    except psycopg.Error as error:
        return [unreachable(error)]
    checks: list[Check] = []
    async with conn:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await _examine(conn, database, checks)
        except psycopg.Error as error:
            said = error.diag.message_primary or "the connection was lost"
            remedy = "Look as the role that owns the database's schema."
            checks.append(Check("questions", "fail", f"Postgres did not answer one: {said}.", remedy))
        except TimeoutError:
            detail = f"They were not all answered within {PATIENCE_SECONDS} s."
            checks.append(Check("questions", "fail", detail, "pg_stat_activity shows what it is busy with."))
    return checks


async def _examine(conn: Connection, database: Database, checks: list[Check]) -> None:
    checks.append(Check("database", "ok", f'"{conn.info.dbname}" answers to {conn.info.user}.'))
    checks.append(version(conn.info.server_version))
    checks.append(await extension(conn))
    checks.append(await clock(conn))
    try:
        status = await migrate.status(conn)
    except RecollectError as error:
        checks.append(Check("migrations", "fail", error.detail, "Install Recollect again."))
        return
    checks.append(migrations(status))
    if not status.applied:
        return
    checks.append(await roles(conn, (*ROLES, *(login.name for login in database.logins))))
    for login, conninfo in zip(database.logins, (database.api, database.worker), strict=True):
        rights = await login_rights(conn, login.name, login.member_of)
        checks.append(rights if rights.status == "fail" else await sign_in(conninfo, login))
    applied = [each for each in migrate.discover() if each.version in status.applied]
    checks.append(await row_security(conn, applied))
    checks.append(await views(conn, applied))
    if not status.pending:
        checks.extend(await of_queue(conn))


async def _connect(conninfo: str) -> Connection:
    return await psycopg.AsyncConnection.connect(
        make_conninfo(conninfo, connect_timeout=CONNECT_SECONDS),
        autocommit=True,
        # Behind a pooler a prepared statement may end up in another session.
        prepare_threshold=None,
        row_factory=dict_row,
    )


def unreachable(error: psycopg.Error) -> Check:
    said = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
    if "password authentication failed" in said:
        remedy = "Correct user and password in RECOLLECT_DATABASE_URL."
    elif "does not exist" in said:
        remedy = "Create it, or correct RECOLLECT_DATABASE_URL."
    else:
        remedy = "See that Postgres runs, and that RECOLLECT_DATABASE_URL has its host and port."
    return Check("database", "fail", f"It cannot be reached: {said}", remedy)


def version(number: int) -> Check:
    detail = f"Postgres {number // 10000}.{number % 10000}"
    if number < 160000:
        return Check("version", "fail", detail, "Recollect needs Postgres 16 or newer: upgrade it.")
    return Check("version", "ok", detail)


async def extension(conn: Connection, name: str = "vector") -> Check:
    rows = await _rows(conn, queries.find_extension, name=name)
    if not rows:
        remedy = "Install pgvector on the server; searching by meaning will need it."
        return Check("extension", "warn", f'"{name}" is not available.', remedy)
    [found] = rows
    state = "installed" if found["installed_version"] else "available"
    number = found["installed_version"] or found["default_version"]
    return Check("extension", "ok", f'"{name}" {number} is {state}.')


async def clock(conn: Connection) -> Check:
    before = time.time()
    [row] = await _rows(conn, queries.read_clock)
    after = time.time()
    # The answer was given at some moment in between: only what lies outside is a difference.
    return clock_apart(max(before - row["seconds"], row["seconds"] - after, 0))


def clock_apart(seconds: float) -> Check:
    detail = f"This machine's clock and the database's are {seconds:,.1f} s apart."
    if seconds <= SLOW_CLOCK:
        return Check("clock", "ok", detail)
    remedy = "Set both by NTP (chrony, systemd-timesyncd): tokens and sessions expire by the clock."
    return Check("clock", "fail" if seconds > WRONG_CLOCK else "warn", detail, remedy)


def migrations(status: migrate.Status) -> Check:
    if status.changed:
        files = ", ".join(each.file for each in status.changed)
        return Check(
            "migrations",
            "fail",
            f"Applied, and changed since: {files}.",
            "Put the files back as they were, and make the change in a new migration.",
        )
    if not status.applied:
        detail = "None is applied: this database is not set up yet."
        return Check("migrations", "warn", detail, 'Run "recollect migrate", or "recollect serve".')
    if status.pending:
        files = ", ".join(each.file for each in status.pending)
        return Check("migrations", "fail", f"Not applied: {files}.", MIGRATE)
    return Check("migrations", "ok", f"All {len(status.applied)} are applied.")


async def roles(conn: Connection, names: Sequence[str]) -> Check:
    found = {row["name"] for row in await _rows(conn, queries.find_roles, names=list(names))}
    if missing := [name for name in names if name not in found]:
        return Check(
            "roles",
            "fail",
            f"Missing: {', '.join(missing)}.",
            'Run "recollect migrate", which makes the server\'s logins; the others come with a copy of '
            "a database only by pg_dumpall --roles-only.",
        )
    return Check("roles", "ok", f"{', '.join(names)} are there.")


async def login_rights(conn: Connection, name: str, allowed: Iterable[str]) -> Check:
    """Whether a login is bound by row security, whichever of its roles it takes on."""
    rows = await _rows(conn, queries.find_login, name=name)
    if not rows:
        return Check(name, "fail", "There is no such login.", MIGRATE)
    attributes = dict(rows[0])
    if not attributes.pop("may_sign_in"):
        return Check(name, "fail", "It may not sign in.", MIGRATE)
    if has := [what for what, is_so in attributes.items() if is_so]:
        remedy = f'Run "recollect migrate" as a superuser, or: alter role {name} no{" no".join(has)}'
        return Check(name, "fail", f"It has more rights than it should: {', '.join(has)}.", remedy)
    powers = await _rows(conn, queries.find_powers, name=name, allowed=list(allowed))
    if powers:
        listed = ", ".join(
            f"{row['power']} (through {row['through']})" if row["through"] != name else row["power"]
            for row in powers
        )
        revokes = "; ".join(f"revoke {row['power']} from {row['through']}" for row in powers)
        return Check(
            name, "fail", f"It can become what row security does not bind: {listed}.", f"In SQL: {revokes}"
        )
    return Check(name, "ok", "It is bound by row security.")


async def sign_in(conninfo: str, login: Login) -> Check:
    try:
        async with await _connect(conninfo):
            pass
    except psycopg.Error as error:
        said = str(error).strip().splitlines()[-1]
        return Check(
            login.name,
            "fail",
            f"It cannot sign in: {said}",
            'Use the secret (RECOLLECT_SECRET_KEY, or secret.key in the home) that "recollect migrate" '
            "was last run with, or run it again with this one.",
        )
    can_become = ", ".join(login.member_of)
    return Check(login.name, "ok", f"It signs in, and may become {can_become}.")


async def row_security(conn: Connection, applied: Iterable[Migration]) -> Check:
    wanted = expected(applied)
    rows = await _rows(conn, queries.list_tables, names=list(wanted.policies))
    missing = sorted(wanted.policies.keys() - {row["name"] for row in rows})
    # Each with the fault and what mends it.
    faults = [(f"{name} is missing", f"restore {name} from a backup") for name in missing]
    surplus: list[str] = []
    for row in rows:
        name, policies = row["name"], set(row["policies"])
        ours = wanted.policies.get(name, set())
        if not row["is_protected"]:
            faults.append((f"{name} is open", f"alter table {name} enable row level security"))
        if not (policies or ours):
            faults.append((f"{name} has no policy", f"call private.close_to_all_but_service('{name}')"))
        for policy in sorted(ours - policies):
            mend = "create the lost policies as the files in supabase/migrations do"
            faults.append((f'{name} has lost its policy "{policy}"', mend))
        if ours and name not in wanted.shared:
            surplus.extend(f'"{policy}" on {name}' for policy in sorted(policies - ours))
    if faults:
        found = "; ".join(fault for fault, _ in faults)
        mends = "; ".join(dict.fromkeys(mend for _, mend in faults))
        return Check("row security", "fail", f"{found}.", f"As the schema's owner: {mends}.")
    if surplus:
        remedy = "Drop those that nobody means to have: a policy can open what is closed."
        return Check("row security", "warn", f"Policies that are not ours: {', '.join(surplus)}.", remedy)
    return Check("row security", "ok", f"All {len(rows)} tables are protected.")


async def views(conn: Connection, applied: Iterable[Migration]) -> Check:
    rows = await _rows(conn, queries.list_open_views, names=list(expected(applied).policies))
    if open_views := [row["name"] for row in rows]:
        return Check(
            "views",
            "fail",
            f"They show our tables past row security: {', '.join(open_views)}.",
            "Drop them, or: alter view ... set (security_invoker = true).",
        )
    return Check("views", "ok", "None reads our tables past row security.")


async def _rows(conn: Connection, query: Query, **parameters: object) -> list[DictRow]:
    cursor = await conn.execute(query.text, parameters)
    return await cursor.fetchall()
