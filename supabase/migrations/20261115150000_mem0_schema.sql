-- Where mem0's library keeps its memories (MEM0_MODE=oss): a schema of its own, for the service alone.

create schema mem0;
grant usage on schema mem0 to service_role;
set search_path = public, extensions;

-- The columns that the library knows are id, vector and payload. Whose a memory is stands in the payload, as mem0's
-- user and in what we wrote beside it; the other columns repeat it, so that Postgres can hold us to it.
create table mem0.memories (
  id uuid primary key,
  vector vector not null,
  payload jsonb not null,
  tenant uuid not null generated always as ((payload ->> 'user_id')::uuid) stored,
  owner_id uuid generated always as ((payload #>> '{of,owner}')::uuid) stored references auth.users (id) on delete cascade,
  workspace_id uuid generated always as ((payload #>> '{of,workspace}')::uuid) stored
    references public.workspaces (id) on delete cascade,
  check (num_nonnulls(owner_id, workspace_id) = 1 and tenant = coalesce(workspace_id, owner_id))
);
-- The same request, or the same fact of an entity, stands once.
create unique index uq_mem0_memories_digest on mem0.memories (tenant, (payload #>> '{of,digest}'));
create index idx_mem0_memories_owner_id on mem0.memories (owner_id);
create index idx_mem0_memories_workspace_id on mem0.memories (workspace_id);
call private.close_to_all_but_service('mem0.memories');
comment on table mem0.memories is 'Memories that mem0''s library keeps: its own three columns, and whose they are.';

create table mem0.history (
  id bigint generated always as identity primary key,
  memory_id uuid not null,
  owner_id uuid references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  tenant uuid not null generated always as (coalesce(workspace_id, owner_id)) stored,
  event text not null check (event in ('ADD', 'UPDATE', 'DELETE', 'FEEDBACK')),
  old_memory text,
  new_memory text,
  actor uuid,
  reason text check (char_length(reason) <= 2000),
  made_at timestamptz not null default clock_timestamp(),
  check (num_nonnulls(owner_id, workspace_id) = 1)
);
create index idx_mem0_history_memory_id on mem0.history (memory_id);
create index idx_mem0_history_owner_id on mem0.history (owner_id);
create index idx_mem0_history_workspace_id on mem0.history (workspace_id);
create index idx_mem0_history_deleted on mem0.history (made_at) where event = 'DELETE';
call private.close_to_all_but_service('mem0.history');
comment on table mem0.history is 'What became of memories that mem0''s library keeps.';

create function mem0.described(m mem0.memories) returns jsonb
language sql stable set search_path = '' as $$
  select jsonb_build_object(
    'id', m.id, 'user_id', o -> 'user', 'agent_id', o -> 'agent', 'app_id', o -> 'app', 'run_id', o -> 'run',
    'kind', o -> 'kind', 'role', o -> 'role', 'categories', coalesce(o -> 'categories', '[]'),
    'memory', m.payload ->> 'data', 'metadata', coalesce(m.payload -> 'metadata', '{}'),
    'created_at', to_char((m.payload ->> 'created_at')::timestamptz at time zone 'UTC', f),
    'updated_at', to_char((m.payload ->> 'updated_at')::timestamptz at time zone 'UTC', f),
    'occurred_at', to_char((o ->> 'occurred_at')::timestamptz at time zone 'UTC', f),
    'expiration_date', to_char((o ->> 'expires_at')::timestamptz at time zone 'UTC', f))
  from (select m.payload -> 'of' as o, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"' as f) as its
$$;
comment on function mem0.described is 'A memory as filters see it; as private.described, for the native ones.';

create function mem0.memories_in(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, passing jsonpath, "values" jsonb
) returns setof mem0.memories
language sql stable as $$
  select m.* from mem0.memories m
  where m.tenant = in_tenant
    and (by_user is null or m.payload #>> '{of,user}' = by_user)
    and (by_agent is null or m.payload #>> '{of,agent}' = by_agent)
    and (by_app is null or m.payload #>> '{of,app}' = by_app)
    and (by_run is null or m.payload #>> '{of,run}' = by_run)
    and (with_expired or m.payload #>> '{of,expires_at}' is null
         or (m.payload #>> '{of,expires_at}')::timestamptz > now())
    and (passing is null or jsonb_path_match(mem0.described(m), passing, "values", true))
$$;
comment on function mem0.memories_in is 'A tenant''s memories: of these entities, not expired, and passing the filter.';

revoke execute on function mem0.described, mem0.memories_in from public;
grant execute on function mem0.described, mem0.memories_in to service_role;

reset search_path;
