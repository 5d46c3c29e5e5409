-- What Supabase brings and other servers lack: three roles, auth.users and the functions that read
-- a caller's claims. Where they exist already they are left alone.

do $$
declare
  wanted text;
  may_bypass boolean := (select rolsuper or rolbypassrls from pg_roles where rolname = current_user);
begin
  foreach wanted in array array['anon', 'authenticated', 'service_role'] loop
    continue when exists (select from pg_roles where rolname = wanted);
    begin
      execute format('create role %I nologin noinherit', wanted);
      if wanted = 'service_role' and may_bypass then
        alter role service_role bypassrls;
      end if;
    exception when duplicate_object or unique_violation then
      null; -- roles belong to the whole cluster, and another database was migrated at this moment
    end;
  end loop;
end $$;

do $$
begin
  if to_regnamespace('auth') is null then
    create schema auth;
    grant usage on schema auth to anon, authenticated, service_role;
  end if;

  if to_regclass('auth.users') is null then
    create table auth.users (
      id uuid primary key default gen_random_uuid(),
      aud varchar(255) default 'authenticated',
      role varchar(255) default 'authenticated',
      email varchar(255),
      encrypted_password varchar(255),
      email_confirmed_at timestamptz,
      last_sign_in_at timestamptz,
      raw_app_meta_data jsonb,
      raw_user_meta_data jsonb,
      phone text,
      banned_until timestamptz,
      deleted_at timestamptz,
      is_anonymous boolean not null default false,
      created_at timestamptz default now(),
      updated_at timestamptz default now()
    );
    create unique index users_email_key on auth.users (lower(email));
    alter table auth.users enable row level security;
  end if;

  if to_regprocedure('auth.jwt()') is null then
    create function auth.jwt() returns jsonb language sql stable
    return nullif(current_setting('request.jwt.claims', true), '')::jsonb;
  end if;

  if to_regprocedure('auth.uid()') is null then
    create function auth.uid() returns uuid language sql stable
    return (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid;
  end if;

  if to_regprocedure('auth.role()') is null then
    create function auth.role() returns text language sql stable
    return nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role';
  end if;
end $$;
