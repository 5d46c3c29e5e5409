"""Row security, for every table: two tenants, nobody and the service, each verb.

A new table fails here until its rows are described in rows.py: ROWS, and its shape in OWN.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import DictRow, dict_row

from recollect.bootstrap import Services
from tests.db.rows import A_MEMORY, CHANGEABLE, OWN, OWNER_COLUMNS, OWNERSHIP, ROWS, VERBS, Tenant

pytestmark = pytest.mark.anyio

Connection = psycopg.AsyncConnection[DictRow]
SCHEMAS = ("public", "private", "jobs", "events", "mail", "mem0")
OURS = ", ".join(f"'{schema}'::regnamespace" for schema in SCHEMAS)


@pytest.fixture
async def superuser(database_url: str) -> AsyncIterator[Connection]:
    async with await psycopg.AsyncConnection.connect(
        database_url, autocommit=True, row_factory=dict_row
    ) as connection:
        yield connection


@pytest.fixture
async def tenants(superuser: Connection) -> tuple[Tenant, Tenant]:
    made = []
    for name in ("ana", "ben"):
        user = await _value(superuser, "select private.add_user(%s)", f"{name}@example.com")
        newcomer = await _value(
            superuser, "insert into auth.users (email) values (%s) returning id", f"new-{name}@example.com"
        )
        workspace = await _value(
            superuser, "insert into workspaces (name) values (%s) returning id", f"{name}'s"
        )
        company = await _value(
            superuser, "insert into companies (name) values (%s) returning id", f"{name}'s"
        )
        await superuser.execute(
            "insert into company_members (company_id, user_id, role) values (%s, %s, 'owner')",
            (company, user),
        )
        await superuser.execute(
            "insert into workspace_members (workspace_id, user_id, role) values (%s, %s, 'owner')",
            (workspace, user),
        )
        endpoint = await _value(
            superuser,
            "insert into events.endpoints (workspace_id, url, sealed_secret)"
            " values (%s, 'https://example.com/', 'x') returning id",
            workspace,
        )
        memory = await _value(superuser, A_MEMORY, user)
        chat = await _value(
            superuser,
            "insert into chat_histories (user_id, source, session) values (%s, 'api', 'x') returning id",
            user,
        )
        rule = await _value(
            superuser,
            "insert into extracted_rules (workspace_id, rule_text, source_session_ids)"
            " values (%s, 'x', '{}') returning id",
            workspace,
        )
        prompt = await _value(
            superuser,
            "insert into extraction_prompts (workspace_id, name, prompt_text)"
            " values (%s, 'x', 'x') returning id",
            workspace,
        )
        node = await _value(
            superuser,
            "insert into memory_nodes (user_id, memory_node_id, memory_type)"
            " values (%s, 'x', 'KEY_VALUE_STORE') returning memory_node_id",
            user,
        )
        made.append(Tenant(user, workspace, company, newcomer, endpoint, memory, chat, rule, prompt, node))
    return made[0], made[1]


async def _value(connection: Connection, query: str, *parameters: Any) -> Any:
    cursor = await connection.execute(query.encode(), parameters)
    row = await cursor.fetchone()
    assert row is not None
    return next(iter(row.values()))


async def _put(connection: Connection, table: str, row: dict[str, Any]) -> DictRow:
    cursor = await connection.execute(_insert(table, row) + sql.SQL(" returning *"))
    stored = await cursor.fetchone()
    assert stored is not None
    return stored


def _insert(table: str, row: dict[str, Any]) -> sql.Composed:
    values = [value if isinstance(value, sql.SQL) else sql.Literal(value) for value in row.values()]
    return sql.SQL("insert into {} ({}) values ({})").format(
        _name(table), sql.SQL(", ").join(map(sql.Identifier, row)), sql.SQL(", ").join(values)
    )


def _name(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split("."))


def _key(row: DictRow) -> sql.Composed:
    owners = {column: row[column] for column in OWNER_COLUMNS if row.get(column) is not None}
    return sql.SQL(" and ").join(
        sql.SQL("{} = {}").format(sql.Identifier(column), sql.Literal(value))
        for column, value in owners.items()
    )


async def _statement(superuser: Connection, verb: str, table: str, tenant: Tenant) -> sql.Composed:
    """A statement on a row that belongs to the tenant."""
    if verb == "insert":
        return _insert(table, ROWS[table](tenant))
    stored = await _put(superuser, table, ROWS[table](tenant))
    if table in OWNERSHIP:
        await superuser.execute(OWNERSHIP[table].encode(), (stored["id"], tenant.id))
    if table == "public.profiles":
        stored = {"id": tenant.id, "phone": None}
    target, where = _name(table), _key(stored)
    if verb == "select":
        # Only the columns that tell whose row it is: others may not be granted.
        columns = sql.SQL(", ").join(sql.Identifier(c) for c in OWNER_COLUMNS if c in stored)
        return sql.SQL("select {} from {} where {}").format(columns, target, where)
    if verb == "delete":
        return sql.SQL("delete from {} where {}").format(target, where)
    column = sql.Identifier(CHANGEABLE.get(table) or _last_column(stored))
    return sql.SQL("update {} set {} = {} where {}").format(target, column, column, where)


def _last_column(row: DictRow) -> str:
    return next(column for column in reversed(row) if column not in OWNER_COLUMNS)


@asynccontextmanager
async def _as(services: Services, who: str, tenants: tuple[Tenant, Tenant]) -> AsyncIterator[Connection]:
    login = services.database.worker if who == "service" else services.database.api
    async with await psycopg.AsyncConnection.connect(login, row_factory=dict_row) as connection:
        if who in {"service", "nobody"}:
            role = "service_role" if who == "service" else "anon"
            await connection.execute("select set_config('role', %s, true)", (role,))
        else:
            user = tenants[0] if who == "ana" else tenants[1]
            await connection.execute(
                "select set_config('role', 'authenticated', true),"
                " set_config('request.jwt.claims', private.claims_of_user(%s, 'write', null), true)",
                (user.id,),
            )
        yield connection
        await connection.rollback()


async def _touched(connection: Connection, statement: sql.Composed) -> int | None:
    """How many rows the statement reached; None if it was refused outright."""
    try:
        cursor = await connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        await connection.rollback()
        return None
    return cursor.rowcount


async def test_every_table_is_described_here(superuser: Connection) -> None:
    cursor = await superuser.execute(
        "select schemaname || '.' || tablename as name from pg_tables"
        " where schemaname = any (%s) and tablename not like 'procrastinate%%'",
        (list(SCHEMAS),),
    )
    tables = {row["name"] for row in await cursor.fetchall()}
    assert tables == set(ROWS) == set(OWN)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("who", ["ana", "ben", "nobody", "service"])
async def test_only_the_owner_and_the_service_reach_a_row(
    services: Services, superuser: Connection, tenants: tuple[Tenant, Tenant], who: str, verb: str
) -> None:
    wrong = []
    for table in ROWS:
        statement = await _statement(superuser, verb, table, tenants[0])
        async with _as(services, who, tenants) as connection:
            touched = await _touched(connection, statement)
        allowed = who == "service" or (who == "ana" and verb in OWN[table])
        if bool(touched) is not allowed:
            wrong.append(f"{who} {verb} {table}: {touched}")
    assert not wrong


async def test_no_row_can_be_moved_to_another_tenant(
    services: Services, superuser: Connection, tenants: tuple[Tenant, Tenant]
) -> None:
    ana, ben = tenants
    moves = {"user_id": ben.id, "owner_id": ben.id, "workspace_id": ben.workspace, "company_id": ben.company}
    for table, new_row in ROWS.items():
        stored = await _put(superuser, table, new_row(ana))
        for column in moves.keys() & stored.keys():
            move = sql.SQL("update {} set {} = {} where {}").format(
                _name(table), sql.Identifier(column), sql.Literal(moves[column]), _key(stored)
            )
            async with _as(services, "ana", tenants) as connection:
                assert await _touched(connection, move) is None, f"{table}.{column}"


async def test_the_logins_see_nothing_without_claims(services: Services, superuser: Connection) -> None:
    for login in (services.database.api, services.database.worker):
        async with await psycopg.AsyncConnection.connect(login, autocommit=True) as connection:
            for table in ROWS:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    await connection.execute(sql.SQL("select 1 from {}").format(_name(table)))


@pytest.mark.parametrize("role", ["service_role", "postgres", "recollect_worker", "recollect_gate"])
async def test_the_api_login_cannot_become_more(services: Services, role: str) -> None:
    async with await psycopg.AsyncConnection.connect(services.database.api, autocommit=True) as connection:
        for statement in (f"set role {role}", f"set session authorization {role}"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await connection.execute(statement.encode())
        await connection.execute("set role authenticated")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute(f"set role {role}".encode())


async def test_a_forged_admin_claim_opens_nothing(
    services: Services, superuser: Connection, tenants: tuple[Tenant, Tenant]
) -> None:
    await _put(superuser, "public.user_memory", ROWS["public.user_memory"](tenants[0]))
    async with await psycopg.AsyncConnection.connect(services.database.api) as connection:
        claims = {"sub": str(tenants[1].id), "role": "service_role", "scopes": ["admin"], "act": "x"}
        await connection.execute(
            "select set_config('role', 'authenticated', true), set_config('request.jwt.claims', %s, true)",
            (json.dumps(claims),),
        )
        cursor = await connection.execute("select * from user_memory")
        assert await cursor.fetchall() == []


# The catalogue


async def _names(connection: Connection, query: str) -> list[str]:
    cursor = await connection.execute(query.encode())
    return [row["name"] for row in await cursor.fetchall()]


UNPROTECTED_TABLES = f"""
select c.oid::regclass::text as name from pg_class c
where c.relkind in ('r', 'p') and c.relnamespace in ({OURS})
  and (not c.relrowsecurity or not exists (select from pg_policy p where p.polrelid = c.oid))
"""

# A policy's first column is what it filters by: some index must begin with it.
UNINDEXED_POLICY_COLUMNS = """
select distinct p.polrelid::regclass || '.' || a.attname as name
from pg_policy p
join pg_depend d on d.classid = 'pg_policy'::regclass and d.objid = p.oid
                and d.refclassid = 'pg_class'::regclass and d.refobjid = p.polrelid and d.refobjsubid > 0
join pg_attribute a on a.attrelid = p.polrelid and a.attnum = d.refobjsubid
where a.atttypid = 'uuid'::regtype and not exists (
  select from pg_index i where i.indrelid = p.polrelid and i.indkey[0] = a.attnum
)
"""

LOOSE_DEFINERS = f"""
select f.oid::regprocedure::text as name from pg_proc f
where f.prosecdef and f.pronamespace in ({OURS})
  and not coalesce(f.proconfig, '{{}}') && array[
    'search_path=""', 'search_path=jobs, pg_temp', 'search_path=extensions, pg_temp']
"""

OPEN_DEFINERS = f"""
select f.oid::regprocedure::text as name from pg_proc f
where f.prosecdef and f.pronamespace in ({OURS})
  and has_function_privilege('public', f.oid, 'execute')
"""

OWNER_VIEWS = f"""
select c.oid::regclass::text as name from pg_class c
where c.relkind = 'v' and c.relnamespace in ({OURS})
  and not coalesce(c.reloptions, '{{}}') @> array['security_invoker=true']
"""

BARE_UID_POLICIES = """
select polrelid::regclass || ': ' || polname as name
from pg_policy, lateral (
  select coalesce(pg_get_expr(polqual, polrelid), '') || coalesce(pg_get_expr(polwithcheck, polrelid), '')
) as e (body)
where regexp_replace(body, 'SELECT (auth|private)\\.\\w+\\(', '', 'g') ~ '(auth|private)\\.\\w+\\('
"""

RULES = {
    "a table without row security or policies": UNPROTECTED_TABLES,
    "a policy column without an index": UNINDEXED_POLICY_COLUMNS,
    "a definer function without a pinned search_path": LOOSE_DEFINERS,
    "a definer function that everybody may call": OPEN_DEFINERS,
    "a view that is not security_invoker": OWNER_VIEWS,
    "a policy that asks who is calling for every row": BARE_UID_POLICIES,
}

# What breaks each rule, to see that the rule would notice.
BREACHES = {
    "a table without row security or policies": "create table public.loose (id int)",
    "a policy column without an index": "drop index idx_workspace_members_user_id",
    "a definer function without a pinned search_path": (
        "create function public.loose() returns int language sql security definer as 'select 1'"
    ),
    "a definer function that everybody may call": (
        "create function public.loose() returns int language sql security definer "
        "set search_path = '' as 'select 1'"
    ),
    "a view that is not security_invoker": "create view public.loose as select * from user_memory",
    "a policy that asks who is calling for every row": (
        "create policy slow on user_memory for select to authenticated using (user_id = auth.uid())"
    ),
}


@pytest.mark.parametrize("rule", RULES)
async def test_the_catalogue_has_no(superuser: Connection, rule: str) -> None:
    assert await _names(superuser, RULES[rule]) == []


@pytest.mark.parametrize("rule", RULES)
async def test_the_catalogue_test_notices(superuser: Connection, rule: str) -> None:
    await superuser.execute(BREACHES[rule].encode())
    assert await _names(superuser, RULES[rule]) != []
