"""On a Supabase project that is in use: what is missing is added, and nothing of it is touched."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from recollect.db.migrate import Login, ensure_logins, migrate

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("scratch-postgres")]

ADA = "00000000-0000-0000-0000-00000000000a"

# As a new project has it, in small: "auth" belongs to another role, which only lends its tables.
AUTH = """
create schema auth authorization supabase_auth_admin;
set role supabase_auth_admin;
create table auth.users (
  instance_id uuid,
  id uuid primary key,
  aud varchar(255),
  role varchar(255),
  email varchar(255),
  encrypted_password varchar(255),
  email_confirmed_at timestamptz,
  last_sign_in_at timestamptz,
  raw_app_meta_data jsonb,
  raw_user_meta_data jsonb,
  is_super_admin boolean,
  created_at timestamptz,
  updated_at timestamptz,
  phone text unique default null,
  banned_until timestamptz,
  is_sso_user boolean not null default false,
  deleted_at timestamptz,
  is_anonymous boolean not null default false
);
create unique index users_email_partial_key on auth.users (email) where is_sso_user = false;
alter table auth.users enable row level security;
create function auth.uid() returns uuid language sql stable as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim.sub', true), ''),
    (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')
  )::uuid
$$;
create function auth.role() returns text language sql stable as $$
  select nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role'
$$;
create function auth.jwt() returns jsonb language sql stable as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')
  )::jsonb
$$;
grant usage on schema auth to anon, authenticated, service_role, owner;
grant all on all tables in schema auth to owner;
reset role;
"""

# The project's own, in the way of Supabase's tutorials.
PROJECT = """
grant usage on schema public to anon, authenticated, service_role;
alter default privileges in schema public
  grant all on tables to anon, authenticated, service_role;
alter default privileges in schema public
  grant all on functions to anon, authenticated, service_role;
alter default privileges in schema public
  grant all on sequences to anon, authenticated, service_role;
insert into auth.users (id, email) values ('00000000-0000-0000-0000-00000000000a', 'ada@example.com');
create table public.profiles (
  id uuid primary key references auth.users on delete cascade,
  updated_at timestamptz,
  username text unique check (char_length(username) >= 3),
  full_name varchar(80)
);
alter table public.profiles enable row level security;
create policy "Profiles are viewable by everyone." on public.profiles for select using (true);
insert into public.profiles select id, null, 'ada', 'Ada Lovelace' from auth.users;
create table public.companies (
  id uuid primary key default gen_random_uuid(), name text not null, vat text
);
insert into public.companies (name, vat) values ('Analytical Engines', 'GB1');
"""

# Owner, rights and columns or source of everything in a schema, and its policies.
SNAPSHOT = """
select 'table', c.relname::text, c.relowner::regrole::text, c.relacl::text,
       string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attacl,
                            pg_get_expr(d.adbin, d.adrelid)), ', ' order by a.attnum)
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where c.relnamespace = 'auth'::regnamespace group by c.oid
union all
select 'function', proname, proowner::regrole::text, proacl::text, pg_get_functiondef(oid)
from pg_proc where pronamespace = 'auth'::regnamespace
union all
select 'schema', nspname, nspowner::regrole::text, nspacl::text, '' from pg_namespace where nspname = 'auth'
union all
select 'policy', tablename, policyname, roles::text, qual from pg_policies where schemaname = 'auth'
order by 1, 2, 3
"""


async def ask(conninfo: str, query: str, *parameters: object) -> list[TupleRow]:
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as conn:
        cursor = await conn.execute(query.encode(), parameters or None)
        return await cursor.fetchall() if cursor.description else []


@pytest.fixture
async def project(owner: str, superuser: str) -> str:
    await ask(make_conninfo(superuser, dbname=str(conninfo_to_dict(owner)["dbname"])), AUTH)
    await ask(owner, PROJECT)
    return owner


async def test_auth_is_left_alone_and_the_projects_tables_only_gain(project: str) -> None:
    auth = await ask(project, SNAPSHOT)
    [before] = await ask(project, "select to_jsonb(p) from profiles p")
    policy = "select policyname, cmd, qual from pg_policies where policyname like 'Profiles are%'"
    policies = await ask(project, policy)
    grants = "select relacl::text[] from pg_class where relname in ('profiles', 'companies')"
    granted = [set(acl) for (acl,) in await ask(project, grants)]

    await migrate(project)

    assert await ask(project, SNAPSHOT) == auth
    [after] = await ask(project, "select to_jsonb(p) from profiles p")
    assert before[0].items() <= after[0].items()
    assert {"email", "phone", "role", "rut", "is_premium", "created_at"} <= after[0].keys()
    assert after[0]["is_premium"] is False
    assert await ask(project, "select name, vat, rut from companies") == [("Analytical Engines", "GB1", None)]
    assert await ask(project, policy) == policies
    assert [set(acl) for (acl,) in await ask(project, grants)] == granted


async def test_what_is_new_is_closed_to_whom_supabase_opens_everything(project: str) -> None:
    await migrate(project)
    open_to_anon = await ask(
        project,
        "select c.oid::regclass::text from pg_class c where relkind in ('r', 'v')"
        " and relnamespace in ('public'::regnamespace, 'private'::regnamespace)"
        " and (has_table_privilege('anon', c.oid, 'select, insert, update, delete, truncate')"
        " or has_table_privilege('authenticated', c.oid, 'truncate, references, trigger')"
        # A view shows what its reader may see, if it says so.
        " or (relkind = 'r' and not relrowsecurity)"
        " or (relkind = 'v' and ('security_invoker=true' = any (reloptions)) is not true))",
    )
    assert sorted(open_to_anon) == [("companies",), ("profiles",)]
    callable_by_anon = await ask(
        project,
        "select proname from pg_proc where pronamespace = 'public'::regnamespace"
        " and has_function_privilege('anon', oid, 'execute')",
    )
    assert callable_by_anon == []


async def test_users_and_logins_work_there(project: str, superuser: str) -> None:
    await migrate(project)
    api = Login("recollect_api", "password", ("anon", "authenticated"))
    await ensure_logins(project, [api])
    try:
        [(grace,)] = await ask(project, "select private.add_user('Grace@example.com', 'Grace')")
        await ask(project, "select private.welcome_user(%s)", ADA)
        assert await ask(project, "select email, full_name from profiles order by 1") == [
            ("grace@example.com", "Grace"),
            (None, "Ada Lovelace"),
        ]
        async with await psycopg.AsyncConnection.connect(
            make_conninfo(project, user=api.name, password=api.password)
        ) as conn:
            await conn.execute(
                "select set_config('request.jwt.claims', private.claims_of_user(%s, 'read', null),"
                " true), set_config('role', 'authenticated', true)",
                [grace],
            )
            cursor = await conn.execute("select personal_to from workspaces")
            assert await cursor.fetchall() == [(grace,)]
        assert await ask(project, "select private.remove_user(%s)", grace) == [(True,)]
    finally:
        await ask(superuser, "drop role recollect_api")
