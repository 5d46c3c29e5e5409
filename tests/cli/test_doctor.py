"""recollect doctor finds what is wrong, says what to do, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from recollect.db import database as databases
from recollect.db.database import Database
from recollect.db.health import Check, disk, of_database, of_machine
from recollect.db.health.catalogue import (
    Connection,
    clock_apart,
    extension,
    login_rights,
    roles,
    version,
)
from recollect.kit.secret import ServerSecret
from recollect.settings import Settings
from tests.cli.conftest import Run, run_command
from tests.conftest import SECRET, make_settings

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    async with databases.locate(settings, ServerSecret(SECRET.encode())) as found:
        yield found


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    ) as found:
        yield found


@pytest.fixture
async def server(template: Database) -> AsyncIterator[Connection]:
    """For what belongs to the server as a whole: no database of the test's own is needed."""
    async with await psycopg.AsyncConnection.connect(
        make_conninfo(template.admin, dbname="postgres"), autocommit=True, row_factory=dict_row
    ) as found:
        yield found


@pytest.fixture
async def scratch_roles(server: Connection) -> AsyncIterator[tuple[str, str]]:
    """A login and a role of the test's own: roles belong to all databases of the server."""
    names = f"login_{uuid4().hex}", f"role_{uuid4().hex}"
    login, role = map(Identifier, names)
    await server.execute(SQL("create role {} login; create role {}").format(login, role))
    try:
        yield names
    finally:
        await server.execute(SQL("drop role {}; drop role {}").format(login, role))


async def faults(database: Database) -> dict[str, Check]:
    return {check.name: check for check in await of_database(database) if check.status != "ok"}


# The command


async def test_a_healthy_database_is_found_healthy(
    recollect: Run, template: Database, home: Path, tmp_path: Path
) -> None:
    beside_others = {"RECOLLECT_HOME": str(home), "RECOLLECT_SECRET_KEY": SECRET}
    embedded, elsewhere = await asyncio.gather(
        run_command(beside_others, tmp_path, "doctor", "--json"), recollect("doctor")
    )

    assert embedded.json["status"] == "ok", embedded.json
    names = {check["name"] for check in embedded.json["checks"]}
    assert names >= {"settings", "home", "secret", "disk", "database", "version", "extension", "clock"}
    assert names >= {"roles", "recollect_api", "recollect_worker", "row security", "views", "migrations"}
    assert all(set(check) == {"name", "status", "detail", "remedy"} for check in embedded.json["checks"])
    assert elsewhere.code == 0
    assert "row security" in elsewhere.out
    assert "disk" not in elsewhere.out


async def test_it_says_what_to_do_and_changes_nothing(
    recollect: Run, connection: Connection, database: Database
) -> None:
    await connection.execute("delete from supabase_migrations.schema_migrations where name = 'bank'")
    await connection.execute('drop policy "who may select" on public.user_memory')

    outcome = await recollect("doctor")

    assert outcome.code == 1
    assert "_bank.sql" in outcome.out
    assert '-> Run "recollect migrate".' in outcome.out
    assert "Traceback" not in outcome.err
    assert "migrations" in await faults(database)


async def test_it_is_of_use_when_the_database_is_not_there(
    environment: dict[str, str], database_url: str, tmp_path: Path
) -> None:
    addresses = {
        "password": make_conninfo(database_url, password="hunter2-wrong"),
        "postgres": "postgresql://someone:hunter2@127.0.0.1:9/recollect",
        "percent": "postgresql://someone:hunter2/secret@127.0.0.1:9/recollect",
        "address": "hunter2",
    }
    asked = [
        run_command({**environment, "RECOLLECT_DATABASE_URL": address}, tmp_path, "doctor")
        for address in addresses.values()
    ]
    wrong, down, misread, senseless = await asyncio.gather(*asked)

    for outcome in (wrong, down, misread, senseless):
        assert outcome.code == 1
        assert "hunter2" not in outcome.out + outcome.err
        assert "secret@" not in outcome.out + outcome.err
        assert "Traceback" not in outcome.err
        assert "fail  database" in outcome.out
    assert "Correct user and password" in wrong.out
    assert "See that Postgres runs" in down.out
    assert "%2F" in misread.out
    assert "is not a Postgres address" in senseless.out


async def test_settings_that_cannot_be_read_are_a_finding(recollect: Run) -> None:
    outcome = await recollect("doctor", "--json", RECOLLECT_LOG_LEVEL="LOUD")

    assert outcome.code == 1
    assert '"settings"' in outcome.out
    assert "LOG_LEVEL" in outcome.out


# What it finds in a database


DAMAGE_TO_ROW_SECURITY = {
    "alter table public.user_memory disable row level security": (
        "public.user_memory is open",
        "alter table public.user_memory enable row level security",
    ),
    'drop policy "who may select" on public.user_memory': (
        'public.user_memory has lost its policy "who may select"',
        "supabase/migrations",
    ),
    'drop policy "the service does everything" on private.passwords': (
        "private.passwords has lost its policy",
        "supabase/migrations",
    ),
    'drop policy "owners are made by owners" on public.workspace_members': (
        'public.workspace_members has lost its policy "owners are made by owners"',
        "supabase/migrations",
    ),
    "drop table private.idempotency_keys": (
        "private.idempotency_keys is missing",
        "restore private.idempotency_keys",
    ),
    "create table private.notes (); alter table private.notes enable row level security": (
        "private.notes has no policy",
        "call private.close_to_all_but_service('private.notes')",
    ),
}


async def test_damage_to_row_security_is_found_and_named(database: Database, connection: Connection) -> None:
    assert await faults(database) == {}
    for damage in DAMAGE_TO_ROW_SECURITY:
        await connection.execute(damage.encode())

    [check] = (await faults(database)).values()

    assert (check.name, check.status) == ("row security", "fail")
    for found, remedy in DAMAGE_TO_ROW_SECURITY.values():
        assert found in check.detail
        assert remedy in (check.remedy or "")
    assert check.detail.count(";") == len(DAMAGE_TO_ROW_SECURITY) - 1


async def test_views_past_row_security_and_policies_of_others_are_found(
    database: Database, connection: Connection
) -> None:
    await connection.execute("create policy everyone on public.user_memory using (true)")
    await connection.execute("create view public.direct as table public.user_memory")
    await connection.execute("create view public.fine with (security_invoker) as table public.user_memory")
    await connection.execute("create view public.nested as table public.fine")
    await connection.execute("create materialized view public.copied as table public.user_memory")

    found = await faults(database)

    assert set(found) == {"row security", "views"}
    assert found["row security"].status == "warn"
    assert '"everyone" on public.user_memory' in found["row security"].detail
    assert found["views"].status == "fail"
    assert found["views"].detail.endswith(": public.copied, public.direct, public.nested.")


async def test_migrations_that_changed_or_are_missing_are_named(
    database: Database, connection: Connection
) -> None:
    await connection.execute("set search_path = supabase_migrations")
    await connection.execute("update schema_migrations set statements = '{select 1}' where name = 'bank'")
    [changed] = (await faults(database)).values()
    await connection.execute("delete from schema_migrations where name = 'bank'")
    [missing] = (await faults(database)).values()
    await connection.execute("drop schema supabase_migrations cascade")
    [never_migrated] = (await faults(database)).values()

    assert (changed.name, changed.status) == ("migrations", "fail")
    assert "changed since: 20261115090300_bank.sql" in changed.detail
    assert (missing.name, missing.status) == ("migrations", "fail")
    assert "Not applied: 20261115090300_bank.sql" in missing.detail
    assert (never_migrated.name, never_migrated.status) == ("migrations", "warn")


async def test_tables_and_views_of_somebody_elses_project_are_not_judged(
    database: Database, connection: Connection
) -> None:
    await connection.execute("create table public.theirs (id int); create schema their")
    await connection.execute("create view public.view_of_theirs as select id from public.theirs")
    await connection.execute("create table their.user_memory (id int)")
    await connection.execute("create policy theirs on public.profiles using (true)")
    await connection.execute(
        "create view public.fine with (security_invoker = on) as table public.user_memory"
    )

    assert await faults(database) == {}


async def test_another_secret_cannot_sign_in(settings: Settings) -> None:
    async with databases.locate(settings, ServerSecret(b"another secret")) as database:
        found = await faults(database)

    assert set(found) == {"recollect_api", "recollect_worker"}
    assert "RECOLLECT_SECRET_KEY" in (found["recollect_api"].remedy or "")


# What it finds about a login


async def test_a_login_bound_by_row_security_is_fine(
    server: Connection, scratch_roles: tuple[str, str]
) -> None:
    login, role = scratch_roles
    await server.execute(SQL("grant {} to {}").format(Identifier(role), Identifier(login)))

    assert (await login_rights(server, login, ["anon"])).status == "ok"


async def test_a_login_with_a_right_too_many_is_found(
    server: Connection, scratch_roles: tuple[str, str]
) -> None:
    login, _ = scratch_roles
    for right in ("superuser", "bypassrls", "createrole"):
        await server.execute(f"alter role {login} {right}".encode())
        check = await login_rights(server, login, [])
        await server.execute(f"alter role {login} no{right}".encode())

        assert (check.name, check.status) == (login, "fail")
        assert right in check.detail
        assert f"no{right}" in (check.remedy or "")


async def test_a_login_that_can_become_the_service_is_found(
    server: Connection, scratch_roles: tuple[str, str]
) -> None:
    login, role = scratch_roles
    await server.execute(f"grant service_role to {login}".encode())
    directly = await login_rights(server, login, ["anon"])
    allowed = await login_rights(server, login, ["service_role"])
    await server.execute(f"revoke service_role from {login}".encode())
    await server.execute(f"grant service_role to {role}; grant {role} to {login}".encode())
    through_another = await login_rights(server, login, ["anon"])

    assert (directly.status, allowed.status, through_another.status) == ("fail", "ok", "fail")
    assert f"revoke service_role from {login}" in (directly.remedy or "")
    assert f"revoke service_role from {role}" in (through_another.remedy or "")


async def test_missing_roles_and_logins_are_named(server: Connection) -> None:
    check = await roles(server, ["anon", "nobody_at_all"])
    assert check.status == "fail"
    assert "nobody_at_all" in check.detail
    assert "anon" not in check.detail
    assert (await login_rights(server, "nobody_at_all", [])).status == "fail"


async def test_a_login_that_may_not_sign_in_is_found(
    server: Connection, scratch_roles: tuple[str, str]
) -> None:
    assert (await login_rights(server, scratch_roles[1], [])).status == "fail"


async def test_a_missing_extension_is_a_warning(server: Connection) -> None:
    assert (await extension(server)).status == "ok"
    assert (await extension(server, "no_such_extension")).status == "warn"


# What it finds about the machine


@pytest.mark.parametrize(
    ("number", "status", "says"),
    [(150008, "fail", "15.8"), (160000, "ok", "16.0"), (180004, "ok", "18.4")],
)
def test_the_version_is_named_and_judged(number: int, status: str, says: str) -> None:
    check = version(number)
    assert check.status == status
    assert says in check.detail


@pytest.mark.parametrize(("free", "status"), [(199_999_999, "fail"), (999_999_999, "warn"), (10**9, "ok")])
def test_a_disk_that_fills_up_is_found_in_time(tmp_path: Path, free: int, status: str) -> None:
    assert disk(tmp_path, free).status == status


@pytest.mark.parametrize(("seconds", "status"), [(0, "ok"), (2, "ok"), (2.1, "warn"), (30.1, "fail")])
def test_clocks_that_are_apart_are_found(seconds: float, status: str) -> None:
    assert clock_apart(seconds).status == status


@pytest.mark.parametrize(("mode", "status"), [(0o600, "ok"), (0o640, "fail"), (0o604, "fail")])
def test_a_secret_that_others_can_read_is_found(tmp_path: Path, mode: int, status: str) -> None:
    settings = Settings(home=tmp_path, _env_file=None)
    (tmp_path / "secret.key").write_text("secret")
    (tmp_path / "secret.key").chmod(mode)

    assert {check.name: check.status for check in of_machine(settings)}["secret"] == status


def test_a_home_that_others_can_write_to_or_that_is_a_file_is_found(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "file").touch()

    for home in (tmp_path, tmp_path / "file"):
        [found, _] = of_machine(make_settings(home, "postgresql://"))
        assert (found.name, found.status) == ("home", "fail")
