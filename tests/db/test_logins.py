"""The server's logins can do what they need, and whatever else they were given is taken away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg.sql import SQL, Composed, Identifier

from recollect.db.logins import AnotherDeployment
from recollect.db.migrate import Login, ensure_logins, migrate
from recollect.errors import Misconfigured

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("scratch-postgres")]

API = Login("recollect_api", "api's \\ password", member_of=("anon", "authenticated"))
WORKER = Login("recollect_worker", "worker password", member_of=("anon", "authenticated", "service_role"))

MEMBERSHIPS = """
select role.rolname, m.admin_option, m.inherit_option, m.set_option
from pg_auth_members m join pg_roles role on role.oid = m.roleid
where m.member = %s::regrole order by 1
"""
BECOME, INHERIT = (False, False, True), (False, True, False)


async def ask(conninfo: str, query: str, *parameters: object) -> list[TupleRow]:
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as conn:
        cursor = await conn.execute(query.encode(), parameters or None)
        return await cursor.fetchall() if cursor.description else []


def signed_in(conninfo: str, login: Login) -> str:
    return make_conninfo(conninfo, user=login.name, password=login.password)


@pytest.fixture
async def migrated(owner: str, superuser: str) -> AsyncIterator[str]:
    await migrate(owner)
    yield owner
    await ask(superuser, "drop owned by recollect_api, recollect_worker")
    await ask(superuser, "drop role recollect_api, recollect_worker")


@pytest.fixture
async def logins(migrated: str) -> str:
    await ensure_logins(migrated, [API, WORKER])
    return migrated


async def test_the_logins_have_the_rights_they_need_and_no_others(logins: str) -> None:
    assert await ask(logins, MEMBERSHIPS, API.name) == [
        ("anon", *BECOME),
        ("authenticated", *BECOME),
        ("recollect_gate", *INHERIT),
    ]
    assert await ask(logins, MEMBERSHIPS, WORKER.name) == [
        ("anon", *BECOME),
        ("authenticated", *BECOME),
        ("recollect_gate", *INHERIT),
        ("service_role", *BECOME),
    ]
    attributes = await ask(
        logins,
        "select rolcanlogin, rolinherit, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb,"
        " rolreplication from pg_roles where rolname in ('recollect_api', 'recollect_worker')",
    )
    assert attributes == [(True, *[False] * 6)] * 2


async def test_the_api_becomes_a_user_and_never_the_service(logins: str) -> None:
    async with await psycopg.AsyncConnection.connect(signed_in(logins, API), autocommit=True) as conn:
        for role in ("anon", "authenticated"):
            await conn.execute(f"set role {role}".encode())
            await conn.execute("reset role")
        for role in ("service_role", "recollect_gate", "owner", "postgres", "recollect_worker"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await conn.execute(f"set role {role}".encode())
    await ask(signed_in(logins, WORKER), "set role service_role")


async def test_the_api_reads_no_row_of_any_table_without_claims(logins: str) -> None:
    [(user,)] = await ask(logins, "select private.add_user('ada@example.com')")
    await ask(logins, "insert into user_memory (user_id, key, value) values (%s, 'k', '1')", user)
    tables = await ask(
        logins,
        "select oid::regclass::text from pg_class where relkind = 'r'"
        " and relnamespace in ('public'::regnamespace, 'private'::regnamespace, 'auth'::regnamespace)",
    )
    assert ("user_memory",) in tables
    read = 0
    async with await psycopg.AsyncConnection.connect(signed_in(logins, API), autocommit=True) as conn:
        for role in ("none", "anon", "authenticated"):
            await conn.execute(f"set role {role}".encode())
            for (table,) in tables:
                try:
                    cursor = await conn.execute(count_of(table))
                except psycopg.errors.InsufficientPrivilege:
                    continue
                read += 1
                assert await cursor.fetchone() == (0,), f"{role} sees rows of {table}"
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            await conn.execute("set row_security = off; select from user_memory")
    assert read, "nothing was readable at all: the test has lost its point"


async def test_a_second_time_changes_nothing_but_the_password(logins: str) -> None:
    before = await ask(logins, MEMBERSHIPS, WORKER.name)
    renewed = Login(WORKER.name, "another password", WORKER.member_of)
    await ensure_logins(logins, [API, renewed])
    assert await ask(logins, MEMBERSHIPS, WORKER.name) == before
    await ask(signed_in(logins, renewed), "select")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        await ask(signed_in(logins, WORKER), "select")


async def test_many_at_once_and_from_two_databases_do_not_disturb_each_other(
    migrated: str, superuser: str
) -> None:
    elsewhere = make_conninfo(migrated, dbname=conninfo_to_dict(superuser)["dbname"])
    await asyncio.gather(
        *(ensure_logins(there, [API, WORKER]) for there in (migrated, elsewhere) for _ in range(4))
    )
    await ask(signed_in(migrated, API), "select")


async def test_the_password_reaches_no_log(migrated: str, superuser: str, open_directory: Path) -> None:
    await ask(superuser, "alter role owner set log_statement = 'all'")
    try:
        await ensure_logins(migrated, [API, WORKER])
    finally:
        await ask(superuser, "alter role owner reset log_statement")
    log = (open_directory / "home" / "postgres.log").read_text()
    assert "SCRAM-SHA-256$" in log
    assert WORKER.password not in log


async def test_strays_are_put_right(logins: str, superuser: str) -> None:
    await ask(logins, "grant service_role to recollect_api")
    await ask(superuser, "grant service_role, pg_monitor to recollect_api with admin option")
    await ask(logins, "revoke anon from recollect_api")
    await ask(logins, "grant authenticated to recollect_api with inherit true")
    await ask(superuser, "alter role recollect_api bypassrls createdb inherit nologin")
    await ensure_logins(superuser_of(logins, superuser), [API, WORKER])
    await test_the_logins_have_the_rights_they_need_and_no_others(logins)
    await ask(signed_in(logins, API), "select")


async def test_what_the_owner_granted_the_owner_can_put_right(logins: str) -> None:
    await ask(logins, "grant service_role to recollect_api with set true, inherit true")
    await ask(logins, "alter role recollect_api bypassrls createdb")
    await ensure_logins(logins, [API, WORKER])
    await test_the_logins_have_the_rights_they_need_and_no_others(logins)


async def test_what_cannot_be_put_right_is_an_error_that_says_so(logins: str, superuser: str) -> None:
    await ask(superuser, "grant service_role to recollect_api")
    with pytest.raises(Misconfigured, match='"owner" cannot set up the login recollect_api'):
        await ensure_logins(logins, [API])
    await ask(superuser, "revoke service_role from recollect_api")

    await ask(superuser, "grant service_role to anon")
    try:
        with pytest.raises(Misconfigured, match="a member of service_role, which row security"):
            await ensure_logins(logins, [API])
    finally:
        await ask(superuser, "revoke service_role from anon")
    with pytest.raises(Misconfigured, match="needs a password"):
        await ensure_logins(logins, [Login("recollect_api", "", ())])


async def test_before_the_migrations_it_says_what_is_missing(owner: str) -> None:
    login = Login("recollect_early", "password", ("anon",), inherits=("recollect_nothing",))
    with pytest.raises(Misconfigured, match=r'"recollect_nothing" does not exist.*migrate'):
        await ensure_logins(owner, [login])
    assert await ask(owner, "select 1 from pg_roles where rolname = 'recollect_early'") == []


async def test_the_right_to_connect_is_granted_where_it_is_missing(migrated: str) -> None:
    await ask(migrated, f"revoke connect on database {database_of(migrated)} from public")
    await ensure_logins(migrated, [API, WORKER])
    await ask(signed_in(migrated, API), "select")


def count_of(table: str) -> Composed:
    return SQL("select count(*) from {}").format(Identifier(*table.split(".")))


def database_of(conninfo: str) -> str:
    return str(conninfo_to_dict(conninfo)["dbname"])


def superuser_of(conninfo: str, superuser: str) -> str:
    return make_conninfo(superuser, dbname=database_of(conninfo))


async def test_a_deployment_with_another_secret_is_kept_from_taking_the_logins(migrated: str) -> None:
    ours = replace(API, deployment="ours")
    theirs = replace(API, password="another password", deployment="theirs")
    await ensure_logins(migrated, [ours])

    with pytest.raises(AnotherDeployment, match="--take-over"):
        await ensure_logins(migrated, [theirs])
    assert await ask(signed_in(migrated, ours), "select 1") == [(1,)]

    await ensure_logins(migrated, [theirs, WORKER], take_over=True)
    assert await ask(signed_in(migrated, theirs), "select 1") == [(1,)]
    with pytest.raises(psycopg.OperationalError):
        await ask(signed_in(migrated, ours), "select 1")


async def test_no_statement_of_a_login_waits_for_ever(migrated: str) -> None:
    patient = replace(WORKER, statement_timeout="300s")
    await ensure_logins(migrated, [replace(API, statement_timeout="100ms"), patient])
    with pytest.raises(psycopg.errors.QueryCanceled):
        await ask(signed_in(migrated, API), "select pg_sleep(5)")
    assert await ask(signed_in(migrated, WORKER), "show statement_timeout") == [("5min",)]
    assert await ask(signed_in(migrated, WORKER), "show idle_in_transaction_session_timeout") == [("30s",)]
