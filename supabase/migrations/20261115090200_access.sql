-- Who is who: profiles, companies, workspaces and projects, and the ways to prove it: passwords,
-- sign-in links, sessions and API keys.

-- Profiles and companies may exist already in a Supabase project: then missing columns are added,
-- and the project's own columns, grants and policies stay as they are. So does row security where the
-- project has left it off: turned on, it would lock the project's own readers out (doctor says so).
do $$
begin
  if to_regclass('public.profiles') is null then
    create table if not exists public.profiles (id uuid primary key references auth.users (id) on delete cascade);
    alter table public.profiles enable row level security;
  end if;
  if to_regclass('public.companies') is null then
    create table if not exists public.companies (id uuid primary key default gen_random_uuid());
    alter table public.companies enable row level security;
  end if;
end $$;
alter table public.profiles
  add column if not exists full_name text,
  add column if not exists email text,
  add column if not exists phone text,
  add column if not exists role text,
  add column if not exists rut text,
  add column if not exists is_premium boolean not null default false,
  add column if not exists created_at timestamptz not null default now(),
  add column if not exists updated_at timestamptz not null default now();

alter table public.companies
  add column if not exists name text,
  add column if not exists rut text,
  add column if not exists tax_regime text,
  add column if not exists activity_name text,
  add column if not exists activity_code text,
  add column if not exists legal_representative text,
  add column if not exists start_date date,
  add column if not exists accounting_start_month text,
  add column if not exists created_at timestamptz not null default now(),
  add column if not exists updated_at timestamptz not null default now();

create table public.company_members (
  company_id uuid not null references public.companies (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  role text not null default 'member' check (role in ('owner', 'admin', 'member')),
  status text not null default 'active' check (status in ('active', 'inactive')),
  created_at timestamptz not null default now(),
  primary key (company_id, user_id)
);
create index idx_company_members_user_id on public.company_members (user_id);

create table public.workspaces (
  id uuid primary key default gen_random_uuid(),
  name text not null check (char_length(name) between 1 and 200),
  personal_to uuid unique references auth.users (id) on delete cascade,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table public.workspace_members (
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  role text not null default 'member'
    check (role in ('owner', 'admin', 'reviewer', 'member', 'viewer')),
  created_at timestamptz not null default now(),
  primary key (workspace_id, user_id)
);
create index idx_workspace_members_user_id on public.workspace_members (user_id);

create table public.projects (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 200),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (workspace_id, name)
);

-- Membership, as arrays: a policy that says "= any((select ...)::uuid[])" asks once per statement.

create function private.my_workspaces(roles text[] default null) returns uuid[]
language sql stable security definer set search_path = '' as $$
  select coalesce(array_agg(m.workspace_id), '{}')
  from public.workspace_members m
  where m.user_id = (select auth.uid()) and (roles is null or m.role = any (roles))
$$;

create function private.my_companies(roles text[] default null) returns uuid[]
language sql stable security definer set search_path = '' as $$
  select coalesce(array_agg(m.company_id), '{}')
  from public.company_members m
  where m.user_id = (select auth.uid()) and m.status = 'active'
    and (roles is null or m.role = any (roles))
$$;

revoke execute on function private.my_workspaces, private.my_companies from public;
grant execute on function private.my_workspaces, private.my_companies to anon, authenticated, service_role;

create function private.refuse_to_move() returns trigger
language plpgsql set search_path = '' as $$
begin
  raise exception 'A row stays in the workspace or company it was made in.'
    using errcode = 'insufficient_privilege';
end $$;
revoke execute on function private.refuse_to_move from public;

create procedure private.protect_shared(
  target regclass, shared_column name, memberships text, writer_roles text[]
)
language plpgsql as $$
declare
  verb text;
  members text := format('%I = any ((select %s())::uuid[])', shared_column, memberships);
  writers text := format('%I = any ((select %s(%L))::uuid[])', shared_column, memberships, writer_roles);
begin
  call private.close_to_all_but_service(target);
  execute format('grant select, insert, update, delete on table %s to authenticated', target);
  call private.open_to(target, 'select', members);
  foreach verb in array array['insert', 'update', 'delete'] loop
    call private.open_to(target, verb, writers);
  end loop;
  -- Who writes in two places must not carry off what belongs to the others in one of them.
  execute format('create trigger stay_in_place before update on %s for each row '
                 'when (old.%I is distinct from new.%I) execute function private.refuse_to_move()',
                 target, shared_column, shared_column);
end $$;

create procedure private.protect_shared_in_workspace(
  target regclass, workspace_column name default 'workspace_id',
  writer_roles text[] default '{owner,admin,reviewer,member}'
)
language sql as $$
  call private.protect_shared(target, workspace_column, 'private.my_workspaces', writer_roles)
$$;
comment on procedure private.protect_shared_in_workspace is
  'Shape: members of a workspace read, those with a writing role write.';

create procedure private.protect_shared_in_company(
  target regclass, company_column name default 'company_id',
  writer_roles text[] default '{owner,admin}'
)
language sql as $$
  call private.protect_shared(target, company_column, 'private.my_companies', writer_roles)
$$;
comment on procedure private.protect_shared_in_company is
  'Shape: active members of a company read, its owners and admins write.';

call private.protect_shared_in_workspace('public.projects');
call private.protect_shared_in_workspace('public.workspaces', 'id', '{owner,admin}');
call private.protect_shared_in_workspace('public.workspace_members', 'workspace_id', '{owner,admin}');
call private.protect_shared_in_company('public.company_members');

-- A workspace or company comes into being together with its first owner, in a function below.
revoke insert on public.workspaces from authenticated;
drop policy "who may insert" on public.workspaces;
create policy "shared ones are deleted by owners" on public.workspaces as restrictive
  for delete to authenticated
  using (personal_to is null and id = any ((select private.my_workspaces('{owner}'))::uuid[]));

-- Whose a workspace or a membership is does not change.
revoke update on public.workspaces, public.workspace_members, public.company_members from authenticated;
grant update (name, updated_at) on public.workspaces to authenticated;
grant update (role) on public.workspace_members to authenticated;
grant update (role, status) on public.company_members to authenticated;

-- Beyond the shape: only an owner makes or unmakes an owner, and everybody may leave.
create policy "owners are made by owners" on public.workspace_members as restrictive
  for insert to authenticated
  with check (role <> 'owner' or workspace_id = any ((select private.my_workspaces('{owner}'))::uuid[]));
create policy "owners are changed by owners" on public.workspace_members as restrictive
  for update to authenticated
  using (role <> 'owner' or workspace_id = any ((select private.my_workspaces('{owner}'))::uuid[]))
  with check (role <> 'owner' or workspace_id = any ((select private.my_workspaces('{owner}'))::uuid[]));
create policy "owners are removed by owners" on public.workspace_members as restrictive
  for delete to authenticated
  using (role <> 'owner' or workspace_id = any ((select private.my_workspaces('{owner}'))::uuid[]));
create policy "everybody may leave" on public.workspace_members
  for delete to authenticated using (user_id = (select auth.uid()));
create policy "owners are made by owners" on public.company_members as restrictive
  for insert to authenticated
  with check (role <> 'owner' or company_id = any ((select private.my_companies('{owner}'))::uuid[]));
create policy "owners are changed by owners" on public.company_members as restrictive
  for update to authenticated
  using (role <> 'owner' or company_id = any ((select private.my_companies('{owner}'))::uuid[]))
  with check (role <> 'owner' or company_id = any ((select private.my_companies('{owner}'))::uuid[]));
create policy "owners are removed by owners" on public.company_members as restrictive
  for delete to authenticated
  using (role <> 'owner' or company_id = any ((select private.my_companies('{owner}'))::uuid[]));

create policy "everybody may leave" on public.company_members
  for delete to authenticated using (user_id = (select auth.uid()));

create function private.keep_personal() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if exists (
    select from public.workspaces w where w.id = new.workspace_id and w.personal_to <> new.user_id
  ) then
    raise exception 'A personal workspace is not shared; create another one and add people there.'
      using errcode = 'RC409';
  end if;
  return null;
end $$;
revoke execute on function private.keep_personal from public;
-- After the policies have judged the row, so that strangers learn nothing from this answer.
create trigger keep_personal after insert on public.workspace_members
  for each row execute function private.keep_personal();

create function private.keep_an_owner() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  shared_column text := tg_argv[0];
  shared_table text := tg_argv[1];
  is_owner text := tg_argv[2];
  shared_id uuid := to_jsonb(old) ->> shared_column;
  parent_lives boolean;
  owner_left boolean;
begin
  -- One at a time: two last owners who leave at once would each count on the other.
  execute format('select true from public.%I where id = $1 for no key update', shared_table)
    into parent_lives using shared_id;
  execute format('select coalesce(bool_or(%s), false) from public.%I where %I = $1',
                 is_owner, tg_table_name, shared_column)
    into owner_left using shared_id;
  if parent_lives is null or owner_left then
    return null;
  end if;
  -- Nobody's account waits for others to be deleted: where somebody is left, the next in line takes over.
  if not exists (select from auth.users u where u.id = old.user_id) then
    execute format(
      'update public.%1$I set role = ''owner'' where %2$I = $1 and user_id = (
         select m.user_id from public.%1$I m where m.%2$I = $1
         order by to_jsonb(m) ->> ''status'' is distinct from ''inactive'' desc, m.role = ''admin'' desc, m.created_at
         limit 1)', tg_table_name, shared_column) using shared_id;
    return null;
  end if;
  raise exception 'The last owner cannot leave or step down; make somebody else an owner first.'
    using errcode = 'RC409';
end $$;
revoke execute on function private.keep_an_owner from public;
create constraint trigger keep_an_owner after update or delete on public.workspace_members
  deferrable initially deferred
  for each row when (old.role = 'owner')
  execute function private.keep_an_owner('workspace_id', 'workspaces', $$role = 'owner'$$);
create constraint trigger keep_an_owner after update or delete on public.company_members
  deferrable initially deferred
  for each row when (old.role = 'owner')
  execute function private.keep_an_owner('company_id', 'companies', $$role = 'owner' and status = 'active'$$);

-- Profiles and companies: on a table of the project's own, only what is missing is added.
create policy "recollect: own profile" on public.profiles for select to authenticated
  using (id = (select auth.uid()));
create policy "recollect: change own profile" on public.profiles for update to authenticated
  using (id = (select auth.uid())) with check (id = (select auth.uid()));
create policy "recollect: companies of mine" on public.companies for select to authenticated
  using (id = any ((select private.my_companies())::uuid[]));
create policy "recollect: companies I manage" on public.companies for update to authenticated
  using (id = any ((select private.my_companies('{owner,admin}'))::uuid[]))
  with check (id = any ((select private.my_companies('{owner,admin}'))::uuid[]));
create policy "recollect: the service" on public.profiles to service_role using (true) with check (true);
create policy "recollect: the service" on public.companies to service_role using (true) with check (true);
grant select, insert, update, delete on public.profiles, public.companies to service_role;
grant select on public.profiles, public.companies to authenticated;
grant update (full_name, phone, rut, updated_at) on public.profiles to authenticated;
grant update (name, rut, tax_regime, activity_name, activity_code, legal_representative,
              start_date, accounting_start_month, updated_at) on public.companies to authenticated;

create function private.guard_premium() returns trigger
language plpgsql set search_path = '' as $$
begin
  -- Where profiles is the project's own table, its grants may let users write every column.
  if new.is_premium and (tg_op = 'INSERT' or not old.is_premium) and current_user in ('anon', 'authenticated') then
    raise exception 'Only the service makes a user premium.' using errcode = 'RC403';
  end if;
  return new;
end $$;
create trigger guard_premium before insert or update on public.profiles
  for each row execute function private.guard_premium();

create function public.create_workspace(name text) returns uuid
language plpgsql security definer set search_path = '' as $$
declare
  made uuid;
begin
  if auth.uid() is null then
    raise exception 'Sign in to create a workspace.' using errcode = 'RC401';
  end if;
  insert into public.workspaces (name) values (create_workspace.name) returning id into made;
  insert into public.workspace_members (workspace_id, user_id, role) values (made, auth.uid(), 'owner');
  return made;
end $$;

create function public.create_company(name text, rut text default null) returns uuid
language plpgsql security definer set search_path = '' as $$
declare
  made uuid;
begin
  if auth.uid() is null then
    raise exception 'Sign in to create a company.' using errcode = 'RC401';
  end if;
  insert into public.companies (name, rut) values (create_company.name, create_company.rut)
    returning id into made;
  insert into public.company_members (company_id, user_id, role) values (made, auth.uid(), 'owner');
  return made;
end $$;
revoke execute on function public.create_workspace, public.create_company from public, anon;
grant execute on function public.create_workspace, public.create_company to authenticated;

-- Credentials. Only digests are stored; what a user may see of them is granted column by column.

create table private.admins (
  user_id uuid primary key references auth.users (id) on delete cascade,
  created_at timestamptz not null default now()
);

create table private.passwords (
  user_id uuid primary key references auth.users (id) on delete cascade,
  hash text not null,
  changed_at timestamptz not null default now()
);

create table private.sign_in_links (
  digest bytea primary key,
  user_id uuid not null references auth.users (id) on delete cascade,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index idx_sign_in_links_user_id on private.sign_in_links (user_id);

create table private.sign_in_failures (
  subject bytea not null, -- a keyed hash of an address or of a client: neither is kept
  failed_at timestamptz not null default now()
);
create index idx_sign_in_failures_subject on private.sign_in_failures (subject, failed_at);

create table private.sessions (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  digest bytea not null unique,
  user_agent text,
  idle_timeout interval not null,
  created_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index idx_sessions_user_id on private.sessions (user_id);

create table private.api_keys (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 200),
  prefix text not null,
  digest bytea not null unique,
  scopes text[] not null default '{read,write}',
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz,
  -- A key made by a key goes when that one goes.
  made_by uuid references private.api_keys (id) on delete cascade default (auth.jwt() ->> 'key_id')::uuid
);
create index idx_api_keys_user_id on private.api_keys (user_id);
create index idx_api_keys_made_by on private.api_keys (made_by);

create table private.idempotency_keys (
  user_id uuid not null references auth.users (id) on delete cascade,
  key text not null check (char_length(key) between 1 and 255),
  fingerprint bytea not null,
  status integer,
  sealed_response bytea,
  created_at timestamptz not null default now(),
  primary key (user_id, key)
);
create index idx_idempotency_keys_created_at on private.idempotency_keys (created_at);

call private.close_to_all_but_service('private.admins');
call private.close_to_all_but_service('private.passwords');
call private.close_to_all_but_service('private.sign_in_links');
call private.close_to_all_but_service('private.sign_in_failures');
call private.protect_owned_by_user('private.idempotency_keys');
call private.protect_owned_by_user('private.sessions');
call private.protect_owned_by_user('private.api_keys');

-- A session is made by signing in alone, and no digest is ever read back.
revoke all on private.sessions from authenticated;
grant select (id, user_id, user_agent, created_at, last_seen_at, expires_at), delete
  on private.sessions to authenticated;
drop policy "who may insert" on private.sessions;
drop policy "who may update" on private.sessions;

revoke all on private.api_keys from authenticated;
grant select (id, user_id, name, prefix, scopes, created_at, last_used_at, expires_at, revoked_at, made_by),
      insert (user_id, name, prefix, digest, scopes, expires_at),
      update (name, revoked_at)
  on private.api_keys to authenticated;
drop policy "who may delete" on private.api_keys;

create function private.my_scopes() returns text[]
language sql stable set search_path = '' as $$
  select coalesce(array_agg(scope), '{}')
  from jsonb_array_elements_text(coalesce(auth.jwt() -> 'scopes', '[]')) as scope
$$;

create function private.my_key_expires_at() returns timestamptz
language sql stable security definer set search_path = '' as $$
  select k.expires_at from private.api_keys k where k.id = (auth.jwt() ->> 'key_id')::uuid
$$;
revoke execute on function private.my_key_expires_at from public;
grant execute on function private.my_key_expires_at to authenticated;

-- Who may read everything may hand out "bank:read".
create policy "no key reaches further than its maker" on private.api_keys as restrictive
  for insert to authenticated with check (not exists (
    select from unnest(scopes) as scope
    where scope <> all ((select private.my_scopes())::text[])
      and split_part(scope, ':', 2) <> all ((select private.my_scopes())::text[])
  ));

-- From a credential to claims. These run inside the caller's transaction, in the statement that also
-- sets the role, so that knowing who calls costs no round trip. A refusal aborts the transaction:
-- whatever was pipelined behind it does not happen.

create function private.claims(
  caller uuid, caller_scopes text[], needs text, subject uuid, proof jsonb
) returns text
language plpgsql stable set search_path = '' as $$
declare
  caller_email text;
  acting_for uuid := coalesce(subject, caller);
begin
  select u.email into caller_email from auth.users u
  where u.id = caller and u.deleted_at is null and (u.banned_until is null or u.banned_until < now());
  if not found then
    raise exception 'That account is gone or suspended.' using errcode = 'RC401';
  end if;

  if 'admin' = any (caller_scopes) and not exists (select from private.admins a where a.user_id = caller) then
    caller_scopes := array_remove(caller_scopes, 'admin');
  end if;
  if needs <> 'any' and not (needs = any (caller_scopes) or split_part(needs, ':', 2) = any (caller_scopes)) then
    raise exception 'This needs the scope "%".', needs using errcode = 'RC403';
  end if;

  -- Acting for somebody else is for admins; to all others nobody else exists.
  if acting_for <> caller and not (
    'admin' = any (caller_scopes) and exists (select from auth.users u where u.id = acting_for)
  ) then
    raise exception 'There is no such user, or it is not you.' using errcode = 'RC404';
  end if;

  return jsonb_build_object(
    'sub', acting_for, 'role', 'authenticated', 'email', caller_email, 'scopes', caller_scopes
  ) || proof || case when acting_for = caller then '{}' else jsonb_build_object('act', caller) end;
end $$;

create function private.claims_of_key(presented bytea, needs text, subject uuid) returns text
language plpgsql security definer set search_path = '' as $$
declare
  found_key private.api_keys;
begin
  select * into found_key from private.api_keys k
  where k.digest = presented and k.revoked_at is null and (k.expires_at is null or k.expires_at > now());
  if not found then
    raise exception 'That API key is unknown, revoked or expired.' using errcode = 'RC401';
  end if;
  -- Once a minute is enough for people to look at, and keeps reads free of writes.
  if found_key.last_used_at is null or found_key.last_used_at < now() - interval '1 minute' then
    update private.api_keys set last_used_at = now() where id = (
      select k.id from private.api_keys k where k.id = found_key.id for update skip locked
    );
  end if;
  return private.claims(found_key.user_id, found_key.scopes, needs, subject,
                        jsonb_build_object('key_id', found_key.id));
end $$;

create function private.claims_of_session(presented bytea, needs text, subject uuid) returns text
language plpgsql security definer set search_path = '' as $$
declare
  found_session private.sessions;
begin
  select * into found_session from private.sessions s
  where s.digest = presented and s.expires_at > now() and s.last_seen_at + s.idle_timeout > now();
  if not found then
    raise exception 'Your session has ended; sign in again.' using errcode = 'RC401';
  end if;
  if found_session.last_seen_at < now() - interval '1 minute' then
    update private.sessions set last_seen_at = now() where id = (
      select s.id from private.sessions s where s.id = found_session.id for update skip locked
    );
  end if;
  return private.claims(found_session.user_id, '{read,write,admin}', needs, subject,
                        jsonb_build_object('session_id', found_session.id));
end $$;

create function private.claims_of_user(known uuid, needs text, subject uuid) returns text
language sql stable security definer set search_path = '' as $$
  select private.claims(known, '{read,write,admin}', needs, subject, '{}')
$$;
comment on function private.claims_of_user is
  'For callers whose identity was proved elsewhere: a verified Supabase token, a job, the command line.';

revoke execute on function private.claims, private.claims_of_key, private.claims_of_session,
  private.claims_of_user, private.my_scopes from public;
grant execute on function private.my_scopes to anon, authenticated, service_role;
grant execute on function private.claims_of_key, private.claims_of_session, private.claims_of_user
  to recollect_gate;

-- Users. On Supabase they are made by its own auth service; these see to what Recollect adds.

create function private.add_user(address text, display_name text default null) returns uuid
language plpgsql security definer set search_path = '' as $$
declare
  made uuid := gen_random_uuid();
begin
  begin
    insert into auth.users (id, aud, role, email, email_confirmed_at, created_at, updated_at)
    values (made, 'authenticated', 'authenticated', lower(address), now(), now(), now());
  exception when unique_violation then
    raise exception 'There is a user with that e-mail address already.' using errcode = 'RC409';
  end;
  perform private.welcome_user(made, display_name);
  return made;
end $$;

create function private.welcome_user(known uuid, display_name text default null) returns uuid
language plpgsql security definer set search_path = '' as $$
declare
  address text;
  home uuid;
begin
  select u.email into address from auth.users u where u.id = known;
  if not found then
    raise exception 'There is no such user.' using errcode = 'RC404';
  end if;
  begin
    insert into public.profiles (id, email, full_name) values (known, address, display_name)
      on conflict (id) do nothing;
  exception when integrity_constraint_violation then
    null; -- a table of the project's own may ask for more than we know: then the project makes profiles
  end;
  insert into public.workspaces (name, personal_to) values ('Personal', known)
    on conflict (personal_to) do nothing returning id into home;
  if home is not null then
    insert into public.workspace_members (workspace_id, user_id, role) values (home, known, 'owner');
  else
    select w.id into home from public.workspaces w where w.personal_to = known;
  end if;
  return home;
end $$;
comment on function private.welcome_user is
  'Give a user a profile and a personal workspace, once.';

create function private.remove_user(known uuid) returns boolean
language plpgsql security definer set search_path = '' as $$
begin
  -- Locked first, so that somebody who is joining at this moment is seen below.
  perform from public.workspaces w
  where w.id in (select m.workspace_id from public.workspace_members m where m.user_id = known)
  order by w.id for update;
  -- A workspace with nobody else in it goes too. A company stays: it is more than its members here.
  delete from public.workspaces w
  where exists (select from public.workspace_members m where m.workspace_id = w.id and m.user_id = known)
    and not exists (
      select from public.workspace_members m where m.workspace_id = w.id and m.user_id <> known
    );
  delete from auth.users u where u.id = known;
  return found;
end $$;

create function private.find_users(
  address text default null, known uuid default null, after_email text default '', at_most integer default 100
) returns table (id uuid, email text, full_name text, is_admin boolean, created_at timestamptz,
                 last_sign_in_at timestamptz, has_password boolean)
language sql stable security definer set search_path = '' as $$
  select u.id, u.email::text, p.full_name, a.user_id is not null, u.created_at, u.last_sign_in_at,
         w.user_id is not null
  from auth.users u
  left join public.profiles p on p.id = u.id
  left join private.admins a on a.user_id = u.id
  left join private.passwords w on w.user_id = u.id
  where (address is null or lower(u.email) = lower(address))
    and (known is null or u.id = known)
    and (after_email = '' or coalesce(u.email, '') > after_email)
    and u.deleted_at is null
  order by coalesce(u.email, '')
  limit at_most
$$;

create function private.record_sign_in(known uuid) returns void
language sql security definer set search_path = '' as $$
  update auth.users set last_sign_in_at = now() where id = known
$$;

revoke execute on function private.add_user, private.welcome_user, private.remove_user,
  private.find_users, private.record_sign_in from public;
grant execute on function private.add_user, private.welcome_user, private.remove_user,
  private.find_users, private.record_sign_in to service_role;
