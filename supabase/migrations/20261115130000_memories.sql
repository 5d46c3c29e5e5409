-- Memories: what was said and what is known, found again by words, by meaning and by what stood beside it.

create schema if not exists extensions;
grant usage on schema extensions to anon, authenticated, service_role;
set search_path = public, extensions;
-- A project that has it already, wherever, keeps it there.
create extension if not exists vector with schema extensions;

do $$
begin
  -- Ids that grow with time keep an index's newest part together.
  if current_setting('server_version_num')::integer >= 180000 then
    create function private.new_id() returns uuid language sql volatile set search_path = ''
      return pg_catalog.uuidv7();
  else
    create function private.new_id() returns uuid language sql volatile set search_path = ''
      return pg_catalog.gen_random_uuid();
  end if;
end $$;
revoke execute on function private.new_id from public;
grant execute on function private.new_id to authenticated, service_role;

create function private.my_tenants(roles text[] default null) returns uuid[]
language sql stable security definer set search_path = '' as $$
  select private.my_workspaces(roles) || (select auth.uid())
$$;
revoke execute on function private.my_tenants from public;
grant execute on function private.my_tenants to anon, authenticated, service_role;

create procedure private.protect_tenants_own(target regclass)
language plpgsql as $$
declare
  verb text;
begin
  call private.close_to_all_but_service(target);
  execute format('grant select, insert, update, delete on table %s to authenticated', target);
  call private.open_to(target, 'select', 'tenant = any ((select private.my_tenants())::uuid[])');
  foreach verb in array array['insert', 'update', 'delete'] loop
    call private.open_to(target, verb,
      'tenant = any ((select private.my_tenants(''{owner,admin,reviewer,member}''))::uuid[])');
  end loop;
  execute format('create trigger stay_in_place before update on %s for each row '
                 'when (old.owner_id is distinct from new.owner_id or old.workspace_id is distinct from new.workspace_id) '
                 'execute function private.refuse_to_move()', target);
end $$;
comment on procedure private.protect_tenants_own is
  'Shape: a row belongs to one user, or to a workspace, whose members read and whose writers write. The column '
  '"tenant" is the one or the other.';

-- The order in which turns were said: one row for each run of a user, an agent and an application.
create table public.memory_streams (
  id bigint generated always as identity primary key,
  owner_id uuid references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  tenant uuid not null generated always as (coalesce(workspace_id, owner_id)) stored,
  of_user text, of_agent text, of_app text, of_run text,
  turns integer not null default 0,
  check (num_nonnulls(owner_id, workspace_id) = 1),
  unique nulls not distinct (tenant, of_user, of_agent, of_app, of_run)
);
create index idx_memory_streams_owner_id on public.memory_streams (owner_id);
create index idx_memory_streams_workspace_id on public.memory_streams (workspace_id);
call private.protect_tenants_own('public.memory_streams');
-- Turns get their places from a function that holds the stream; nobody else gives any.
revoke insert, update, delete on public.memory_streams from authenticated;
comment on table public.memory_streams is
  'Runs: how many turns each has. Whoever adds to one holds its row, so that turns get their places in order.';

create table public.memories (
  id uuid primary key default private.new_id(),
  owner_id uuid references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  tenant uuid not null generated always as (coalesce(workspace_id, owner_id)) stored,
  of_user text, of_agent text, of_app text, of_run text,
  kind text not null check (kind in ('turn', 'fact')),
  role text, speaker text,
  text text not null check (char_length(text) between 1 and 50000),
  metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
  categories text[] not null default '{}',
  importance real check (importance between 0 and 1),
  terms bigint[] not null,
  tokens integer not null default 0,
  stream bigint references public.memory_streams (id) on delete cascade,
  position integer,
  digest bytea not null,
  slot bytea,
  occurred_at timestamptz,
  expires_at timestamptz,
  valid_from timestamptz not null default now(),
  valid_until timestamptz,
  superseded_by uuid references public.memories (id) on delete set null deferrable initially deferred,
  deleted_at timestamptz,
  feedback text check (feedback in ('POSITIVE', 'NEGATIVE', 'VERY_NEGATIVE')),
  feedback_reason text check (char_length(feedback_reason) <= 2000),
  version integer not null default 1,
  event text not null default 'ADD'
    check (event in ('ADD', 'UPDATE', 'DELETE', 'SUPERSEDE', 'FEEDBACK', 'RESTORE')),
  actor uuid,
  reason text check (char_length(reason) <= 2000),
  made_by text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check (num_nonnulls(owner_id, workspace_id) = 1),
  check (num_nonnulls(of_user, of_agent, of_app, of_run) > 0)
);
-- The same thing of the same entity stands once, and so does the answer to a question with one answer.
create unique index uq_memories_digest on public.memories (tenant, digest)
  where deleted_at is null and valid_until is null;
create unique index uq_memories_slot on public.memories (tenant, slot)
  where deleted_at is null and valid_until is null and slot is not null;
create unique index uq_memories_position on public.memories (stream, position) where stream is not null;
create index idx_memories_owner_id on public.memories (owner_id);
create index idx_memories_workspace_id on public.memories (workspace_id);
create index idx_memories_superseded_by on public.memories (superseded_by) where superseded_by is not null;
create index idx_memories_newest on public.memories (tenant, created_at, id);
create index idx_memories_of_user on public.memories (tenant, of_user) where of_user is not null;
create index idx_memories_of_agent on public.memories (tenant, of_agent) where of_agent is not null;
create index idx_memories_of_app on public.memories (tenant, of_app) where of_app is not null;
create index idx_memories_of_run on public.memories (tenant, of_run) where of_run is not null;
create index idx_memories_deleted_at on public.memories (deleted_at) where deleted_at is not null;
-- A search reads what was not yet sorted in one by one: little is left unsorted.
create index idx_memories_terms on public.memories using gin (terms) with (gin_pending_list_limit = 256);
call private.protect_tenants_own('public.memories');
-- Memories come by functions that give them their places, and go by tombstones.
revoke insert, update, delete on public.memories from authenticated;
grant update (text, terms, tokens, digest, slot, metadata, categories, occurred_at, expires_at, deleted_at, feedback,
              feedback_reason, event, reason)
  on public.memories to authenticated;

comment on table public.memories is 'What was said, turn by turn, and facts distilled from it.';
comment on column public.memories.of_user is 'Whom it is about, as the application calls them; so with agent, app and run.';
comment on column public.memories.terms is
  'Its words, folded and stemmed, each as a number that differs from tenant to tenant: one index serves all, and a '
  'look-up meets nobody else''s memories. A word said twice is there twice.';
comment on column public.memories.tokens is 'About how much of a prompt it takes.';
comment on column public.memories.digest is 'What makes it the same as another: the request and the turn, or the fact itself.';
comment on column public.memories.slot is 'The question that a fact answers, where that has one answer at a time.';
comment on column public.memories.event is 'What made this version; with actor and reason. Earlier ones are in memory_versions.';

create table public.memory_vectors (
  memory_id uuid not null references public.memories (id) on delete cascade,
  owner_id uuid references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  tenant uuid not null generated always as (coalesce(workspace_id, owner_id)) stored,
  model text not null check (char_length(model) between 1 and 200),
  dimension smallint not null,
  embedding vector not null,
  -- In this order it serves row security and the look-up of one memory alike, whatever Postgres knows of the table.
  primary key (tenant, model, memory_id),
  check (num_nonnulls(owner_id, workspace_id) = 1),
  check (vector_dims(embedding) = dimension)
);
create index idx_memory_vectors_memory_id on public.memory_vectors (memory_id);
create index idx_memory_vectors_owner_id on public.memory_vectors (owner_id);
create index idx_memory_vectors_workspace_id on public.memory_vectors (workspace_id);
call private.protect_tenants_own('public.memory_vectors');
comment on table public.memory_vectors is
  'Each memory''s place in the space of a model. Only vectors of one model are compared; two models'' may stand side by '
  'side while one takes over from the other.';

create table public.memory_models (
  name text primary key,
  since timestamptz not null default now()
);
call private.close_to_all_but_service('public.memory_models');
comment on table public.memory_models is 'Which models there are vectors of: more than one while one takes over from another.';

create function private.note_model(named text) returns void
language plpgsql security definer set search_path = '' as $$
begin
  if named is not null and not exists (select from public.memory_models m where m.name = named) then
    insert into public.memory_models (name) values (named) on conflict do nothing;
  end if;
end $$;
revoke execute on function private.note_model from public;
grant execute on function private.note_model to authenticated, service_role;

create table public.memory_versions (
  memory_id uuid not null references public.memories (id) on delete cascade,
  version integer not null,
  owner_id uuid references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  tenant uuid not null generated always as (coalesce(workspace_id, owner_id)) stored,
  text text not null,
  metadata jsonb not null,
  event text not null,
  actor uuid,
  reason text,
  made_at timestamptz not null,
  primary key (memory_id, version),
  check (num_nonnulls(owner_id, workspace_id) = 1)
);
create index idx_memory_versions_tenant on public.memory_versions (tenant);
create index idx_memory_versions_owner_id on public.memory_versions (owner_id);
create index idx_memory_versions_workspace_id on public.memory_versions (workspace_id);
call private.protect_tenants_own('public.memory_versions');
-- History is written by what changes a memory, and by nobody else.
revoke insert, update, delete on public.memory_versions from authenticated;
comment on table public.memory_versions is 'What memories were before they changed. The newest version is the memory itself.';

create table public.memory_links (
  memory_id uuid not null references public.memories (id) on delete cascade,
  other_id uuid not null references public.memories (id) on delete cascade,
  owner_id uuid references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  tenant uuid not null generated always as (coalesce(workspace_id, owner_id)) stored,
  similarity real not null,
  primary key (memory_id, other_id),
  check (num_nonnulls(owner_id, workspace_id) = 1)
);
create index idx_memory_links_other_id on public.memory_links (other_id);
create index idx_memory_links_tenant on public.memory_links (tenant);
create index idx_memory_links_owner_id on public.memory_links (owner_id);
create index idx_memory_links_workspace_id on public.memory_links (workspace_id);
call private.protect_tenants_own('public.memory_links');
revoke insert, update, delete on public.memory_links from authenticated;
comment on table public.memory_links is 'Facts that say nearly the same: the later one, and the one it resembles.';

-- Versions and events ----------------------------------------------------------------------------

create function private.version_memory() returns trigger
language plpgsql set search_path = '' as $$
begin
  new.version := old.version + 1;
  new.updated_at := clock_timestamp();
  new.actor := coalesce((auth.jwt() ->> 'act')::uuid, auth.uid());
  return new;
end $$;
-- That what superseded it is purged is no change of the memory itself.
create trigger count_version before update on public.memories
  for each row when (new.superseded_by is not null or old.superseded_by is null)
  execute function private.version_memory();

create function private.keep_versions() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into public.memory_versions
    (memory_id, version, owner_id, workspace_id, text, metadata, event, actor, reason, made_at)
  select b.id, b.version, b.owner_id, b.workspace_id, b.text, b.metadata, b.event, b.actor, b.reason, b.updated_at
  from before b join changed c on c.id = b.id where c.version > b.version;
  return null;
end $$;
create trigger keep_versions after update on public.memories
  referencing old table as before new table as changed for each statement execute function private.keep_versions();

create function private.tell_memories() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into events.log (type, subject, user_id, workspace_id, actor, data)
  select 'memory.' || case m.event when 'ADD' then 'added' when 'DELETE' then 'deleted' else 'updated' end,
         'memory/' || m.id, m.owner_id, m.workspace_id, m.actor,
         jsonb_strip_nulls(jsonb_build_object(
           'memoryId', m.id, 'event', m.event, 'version', m.version,
           'user', m.of_user, 'agent', m.of_agent, 'app', m.of_app, 'run', m.of_run))
  from changed m
  where tg_op = 'INSERT' or m.updated_at >= now();
  perform pg_notify('recollect_outbox', '');
  return null;
end $$;
create trigger tell_added after insert on public.memories
  referencing new table as changed for each statement execute function private.tell_memories();
create trigger tell_changed after update on public.memories
  referencing new table as changed for each statement execute function private.tell_memories();
revoke execute on function private.version_memory, private.keep_versions, private.tell_memories from public;

-- Which memories a call is about -----------------------------------------------------------------

create function private.described(m public.memories) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'id', m.id, 'user_id', m.of_user, 'agent_id', m.of_agent, 'app_id', m.of_app, 'run_id', m.of_run,
    'kind', m.kind, 'role', m.role, 'categories', m.categories, 'memory', m.text, 'metadata', m.metadata,
    'created_at', to_char(m.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'updated_at', to_char(m.updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'occurred_at', to_char(m.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'expiration_date', to_char(m.expires_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
$$;
comment on function private.described is 'A memory as filters see it.';

-- Postgres puts these two into the statements that use them: one place says what is in scope, and indexes serve it.
create function private.passes(
  m public.memories, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb
) returns boolean
language sql stable as $$
  select (by_user is null or m.of_user = by_user)
    and (by_agent is null or m.of_agent = by_agent)
    and (by_app is null or m.of_app = by_app)
    and (by_run is null or m.of_run = by_run)
    and m.deleted_at is null
    and (with_expired or m.expires_at is null or m.expires_at > now())
    and (with_superseded or m.valid_until is null or m.valid_until > now())
    and (passing is null or jsonb_path_match(private.described(m), passing, "values", true))
$$;
comment on function private.passes is 'Whether a memory is of these entities, alive, and passes the filter.';

-- Whichever entity is named leads, by its own index: so a plan that is made once is right for every call.
create function private.memories_in(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb
) returns setof public.memories
language sql stable as $$
  select m.* from public.memories m
  where by_run is not null and m.tenant = in_tenant and m.of_run = by_run
    and private.passes(m, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")
  union all
  select m.* from public.memories m
  where by_run is null and by_user is not null and m.tenant = in_tenant and m.of_user = by_user
    and private.passes(m, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")
  union all
  select m.* from public.memories m
  where by_run is null and by_user is null and by_agent is not null and m.tenant = in_tenant and m.of_agent = by_agent
    and private.passes(m, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")
  union all
  select m.* from public.memories m
  where by_run is null and by_user is null and by_agent is null and by_app is not null
    and m.tenant = in_tenant and m.of_app = by_app
    and private.passes(m, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")
  union all
  select m.* from public.memories m
  where by_run is null and by_user is null and by_agent is null and by_app is null and m.tenant = in_tenant
    and private.passes(m, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")
$$;
comment on function private.memories_in is 'A tenant''s memories that pass.';

revoke execute on function private.described, private.passes, private.memories_in from public;
grant execute on function private.described, private.passes, private.memories_in to authenticated, service_role;

reset search_path;
