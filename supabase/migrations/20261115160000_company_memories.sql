-- A third kind of tenant: memories that belong to a company, which its active members share.

create or replace function private.my_tenants(roles text[] default null) returns uuid[]
language sql stable security definer set search_path = '' as $$
  select private.my_workspaces(roles) || private.my_companies(roles) || (select auth.uid())
$$;

create or replace function private.hold_to_tenant(wanted uuid, roles text[] default null) returns void
language plpgsql stable set search_path = '' as $$
begin
  if wanted is distinct from auth.uid() and not private.is_service()
    and (wanted = any (private.my_workspaces(roles)) or wanted = any (private.my_companies(roles))) is not true
  then
    raise exception 'There is no such workspace or company, or you may not do that in it.' using errcode = 'RC404';
  end if;
end $$;
comment on function private.hold_to_tenant is
  'An error unless these are the caller''s own memories, or those of a workspace or company of theirs.';

create function private.say_tenant() returns trigger
language plpgsql set search_path = '' as $$
begin
  new.tenant := coalesce(new.workspace_id, new.owner_id, new.company_id);
  return new;
end $$;
revoke execute on function private.say_tenant from public;

do $$
declare
  target regclass;
  outdated name;
begin
  foreach target in array array[
    'public.memory_streams', 'public.memories', 'public.memory_vectors', 'public.memory_versions', 'public.memory_links',
    'mem0.history']::regclass[]
  loop
    -- What a column is generated from cannot be changed in every version of Postgres that we run on.
    execute format('alter table %s alter column tenant drop expression', target);
    execute format('alter table %s add column company_id uuid references public.companies (id) on delete cascade', target);
    execute format('create index %I on %s (company_id) where company_id is not null',
                   format('idx_%s_company_id', case target when 'mem0.history'::regclass then 'mem0_history'
                                               else (select relname from pg_class where oid = target) end), target);
    for outdated in
      select c.conname from pg_constraint c
      where c.conrelid = target and c.contype = 'c' and pg_get_constraintdef(c.oid) like '%num_nonnulls(owner_id, workspace_id)%'
    loop
      execute format('alter table %s drop constraint %I', target, outdated);
    end loop;
    execute format('alter table %s add constraint of_one_tenant check (num_nonnulls(owner_id, workspace_id, company_id) = 1 '
                   'and tenant = coalesce(workspace_id, owner_id, company_id))', target);
    execute format('create trigger say_tenant before insert on %s for each row when (new.tenant is null) '
                   'execute function private.say_tenant()', target);
    execute format('drop trigger if exists stay_in_place on %s', target);
    execute format('create trigger stay_in_place before update on %s for each row '
                   'when (old.tenant is distinct from new.tenant or old.owner_id is distinct from new.owner_id '
                   'or old.workspace_id is distinct from new.workspace_id or old.company_id is distinct from new.company_id) '
                   'execute function private.refuse_to_move()', target);
  end loop;
end $$;

alter table mem0.memories add column company_id uuid generated always as ((payload #>> '{of,company}')::uuid) stored
  references public.companies (id) on delete cascade;
create index idx_mem0_memories_company_id on mem0.memories (company_id) where company_id is not null;
do $$
declare
  outdated name;
begin
  for outdated in select c.conname from pg_constraint c where c.conrelid = 'mem0.memories'::regclass and c.contype = 'c' loop
    execute format('alter table mem0.memories drop constraint %I', outdated);
  end loop;
end $$;
alter table mem0.memories add constraint of_one_tenant check (
  num_nonnulls(owner_id, workspace_id, company_id) = 1 and tenant = coalesce(workspace_id, owner_id, company_id));

create or replace function private.keep_versions() returns trigger
language plpgsql security definer set search_path = ''
-- Planned when a session changes its first memory, and used again when it changes a thousand.
set enable_nestloop = off as $$
begin
  insert into public.memory_versions
    (memory_id, version, owner_id, workspace_id, company_id, tenant, text, metadata, event, actor, reason, made_at)
  select b.id, b.version, b.owner_id, b.workspace_id, b.company_id, b.tenant, b.text, b.metadata, b.event, b.actor,
         b.reason, b.updated_at
  from before b join changed c on c.id = b.id where c.version > b.version;
  return null;
end $$;

create or replace function private.tell_memories() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into events.log (type, subject, user_id, workspace_id, company_id, actor, data)
  select 'memory.' || case m.event when 'ADD' then 'added' when 'DELETE' then 'deleted' else 'updated' end,
         'memory/' || m.id, m.owner_id, m.workspace_id, m.company_id, m.actor,
         jsonb_strip_nulls(jsonb_build_object(
           'memoryId', m.id, 'event', m.event, 'version', m.version,
           'user', m.of_user, 'agent', m.of_agent, 'app', m.of_app, 'run', m.of_run))
  from changed m
  where tg_op = 'INSERT' or m.updated_at >= now();
  perform pg_notify('recollect_outbox', '');
  return null;
end $$;
