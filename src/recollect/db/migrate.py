"""Bring a database's schema up to date, and the server's logins with it.

Migrations are recorded where and as the Supabase CLI records them, so that ``recollect migrate``
and ``supabase db push`` can take turns on one database. Each is one transaction together with its
record: it happens whole or not at all, and may be interrupted at any moment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.rows import tuple_row

from recollect.db import statements
from recollect.db.logins import Login, ensure_logins
from recollect.db.statements import Statement
from recollect.db.turns import PASSING, PATIENCE, Connection, Patience, alone, connected, patiently
from recollect.errors import Misconfigured, Unavailable

__all__ = [
    "ChangedMigration",
    "Login",
    "Migration",
    "MigrationFailed",
    "Patience",
    "Status",
    "discover",
    "ensure_logins",
    "migrate",
    "status",
]

_FILE_NAME = re.compile(r"(\d{14})_([a-z0-9_]+)\.sql")
_TRANSACTION_CONTROL = {"begin", "start", "commit", "end", "rollback", "abort"}


class ChangedMigration(Misconfigured):
    """A migration that was applied has been changed since."""

    code = "changed_migration"


class MigrationFailed(Misconfigured):
    """A migration could not be applied; nothing of it was kept."""

    code = "migration_failed"


@dataclass(frozen=True)
class Migration:
    version: str
    name: str
    sql: str = field(repr=False)

    @property
    def file(self) -> str:
        return f"{self.version}_{self.name}.sql"


@dataclass(frozen=True)
class Status:
    applied: tuple[str, ...]
    pending: tuple[Migration, ...]
    changed: tuple[Migration, ...]
    unknown: tuple[str, ...]


def discover(directory: Path | None = None) -> list[Migration]:
    """All migrations, in the order in which they are applied."""
    directory = directory or _default_directory()
    if not directory.is_dir():
        raise Misconfigured(f"There is no directory of migrations at {directory}.")
    found: dict[str, Migration] = {}
    for path in sorted(directory.iterdir()):
        if path.name.startswith("."):
            continue
        migration = _read(path)
        if twin := found.get(migration.version):
            raise Misconfigured(
                f"{twin.file} and {migration.file} in {directory} have the same version; "
                "give one of them another timestamp."
            )
        found[migration.version] = migration
    if not found:
        raise Misconfigured(f"There are no migrations in {directory}.")
    return list(found.values())


def _default_directory() -> Path:
    package = Path(__file__).parents[1]
    in_wheel = package / "migrations"
    return in_wheel if in_wheel.is_dir() else package.parents[1] / "supabase" / "migrations"


def _read(path: Path) -> Migration:
    named = _FILE_NAME.fullmatch(path.name)
    if not named:
        raise Misconfigured(
            f"{path} is not named like a migration: a timestamp of 14 digits, an underscore and a "
            "name in lower case, such as 20261115090300_bank.sql."
        )
    # Bytes, because reading as text would turn \r\n into \n, and the CLI records what is there.
    return Migration(named[1], named[2], path.read_bytes().decode("utf-8-sig"))


async def status(conn: Connection, directory: Path | None = None) -> Status:
    return _compare(discover(directory), await _recorded(conn))


async def migrate(
    conninfo: str,
    *,
    directory: Path | None = None,
    on_applied: Callable[[Migration], None] | None = None,
    patience: Patience = PATIENCE,
) -> list[Migration]:
    """Apply what is pending and return it."""
    migrations = discover(directory)
    applied = []
    async with connected(conninfo) as conn:
        found = _compare(migrations, await _recorded(conn))
        _refuse_changed(found.changed)
        # Also those older than the newest applied: a branch merged late brings such a file, and
        # when a server starts nobody is there to be asked. (The CLI wants --include-all.)
        for migration in found.pending:
            if await _apply(conn, migration, patience):
                applied.append(migration)
                if on_applied:
                    on_applied(migration)
    return applied


def _compare(migrations: Sequence[Migration], recorded: dict[str, list[str] | None]) -> Status:
    ours = {migration.version for migration in migrations}
    return Status(
        applied=tuple(m.version for m in migrations if m.version in recorded),
        pending=tuple(m for m in migrations if m.version not in recorded),
        changed=tuple(m for m in migrations if m.version in recorded and _differs(m, recorded[m.version])),
        # A Supabase project has migrations of its own in the same table.
        unknown=tuple(version for version in recorded if version not in ours),
    )


def _differs(migration: Migration, recorded: Sequence[str] | None) -> bool:
    # Old versions of the CLI, and "migration repair" without the file, record no statements.
    if not recorded:
        return False
    # Other tools (the dashboard, the MCP server) record the file as one statement, and git may have
    # changed its line ends.
    return _essence(recorded) != _essence([migration.sql])


def _essence(parts: Sequence[str]) -> list[str]:
    lines = (part.replace("\r\n", "\n") for part in parts)
    return [text for part in lines for text in statements.texts(part)]


def _refuse_changed(changed: Sequence[Migration]) -> None:
    if changed:
        files = ", ".join(migration.file for migration in changed)
        raise ChangedMigration(
            f"{files} was applied to this database with other content. Put the file back as it was "
            "(supabase_migrations.schema_migrations has the statements) and make the change in a "
            "new migration.",
            files=[migration.file for migration in changed],
        )


async def _recorded(conn: Connection) -> dict[str, list[str] | None]:
    if not await _has_history(conn):
        return {}
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(
            "select version, statements from supabase_migrations.schema_migrations order by version"
        )
        return dict(await cursor.fetchall())


async def _has_history(conn: Connection) -> bool:
    async with conn.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(
            "select from pg_attribute"
            " where attrelid = to_regclass('supabase_migrations.schema_migrations')"
            " and attname in ('version', 'statements', 'name') and not attisdropped"
        )
        return cursor.rowcount == 3


async def _apply(conn: Connection, migration: Migration, patience: Patience) -> bool:
    """Apply it unless somebody else has done so in the meantime."""
    cut = statements.split(migration.sql)
    for statement in cut:
        if statement.command in _TRANSACTION_CONTROL:
            raise MigrationFailed(
                f'{migration.file}, line {statement.code_line}: "{statement.command}" would end '
                "the transaction that keeps a migration whole; leave it out."
            )

    async def work() -> bool:
        try:
            async with alone(conn, "recollect migrate", patience):
                recorded = await _recorded(conn)
                if migration.version in recorded:
                    _refuse_changed(_compare([migration], recorded).changed)
                    return False
                await _ensure_history(conn)
                for statement in cut:
                    await _execute(conn, migration, statement)
                await _record(conn, migration, cut)
        except PASSING:
            raise
        except psycopg.Error as error:
            raise _failure(conn, migration, error) from error
        return True

    return await patiently(work, migration.file, patience)


async def _ensure_history(conn: Connection) -> None:
    # Asked first, because "create schema if not exists" takes the right to create one in any case.
    if not await _has_history(conn):
        # In the CLI's steps, so that a table made by an old version of it is completed.
        await conn.execute(
            "create schema if not exists supabase_migrations;"
            "create table if not exists supabase_migrations.schema_migrations"
            " (version text not null primary key);"
            "alter table supabase_migrations.schema_migrations"
            " add column if not exists statements text[], add column if not exists name text"
        )


async def _record(conn: Connection, migration: Migration, cut: Sequence[Statement]) -> None:
    await conn.execute(
        "insert into supabase_migrations.schema_migrations (version, name, statements) values (%s, %s, %s)",
        (migration.version, migration.name, [statement.text for statement in cut]),
    )


async def _execute(conn: Connection, migration: Migration, statement: Statement) -> None:
    try:
        await conn.execute(statement.text.encode())
    except PASSING:
        raise
    except psycopg.Error as error:
        position = int(error.diag.statement_position or 0)
        before = statement.text[: position - 1] if position else None
        line = statement.code_line if before is None else statement.line + before.count("\n")
        raise _failure(conn, migration, error, f", line {line}") from error


def _failure(
    conn: Connection, migration: Migration, error: psycopg.Error, place: str = ""
) -> MigrationFailed | Unavailable:
    if conn.closed or isinstance(error, psycopg.errors.AdminShutdown):
        return Unavailable(
            f"{migration.file}{place}: the connection to the database was lost ({error}). Run "
            '"recollect migrate" again: a migration is applied whole or not at all.'
        )
    diag = error.diag
    said = (diag.message_primary, diag.message_detail, diag.message_hint, diag.context)
    sentences = ". ".join(part.rstrip(".") for part in said if part)
    return MigrationFailed(f"{migration.file}{place}: {sentences or error}. Nothing of this file was kept.")
