-- The brain: facts about users and companies, one for each slug, each with its memory in the engine.

create table public.user_brain (
  id uuid primary key default private.new_id(),
  user_id uuid not null references public.profiles (id) on delete cascade,
  memory_id varchar(255) not null unique,
  slug varchar(255) not null check (slug ~ '^[a-z0-9_]{1,255}$'),
  content text not null check (char_length(content) between 1 and 50000),
  extra_metadata jsonb not null default '{}' check (jsonb_typeof(extra_metadata) = 'object'),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (user_id, slug)
);
call private.protect_owned_by_user('public.user_brain');

create table public.company_brain (
  id uuid primary key default private.new_id(),
  company_id uuid not null references public.companies (id) on delete cascade,
  memory_id varchar(255) not null unique,
  slug varchar(255) not null check (slug ~ '^[a-z0-9_]{1,255}$'),
  content text not null check (char_length(content) between 1 and 50000),
  extra_metadata jsonb not null default '{}' check (jsonb_typeof(extra_metadata) = 'object'),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (company_id, slug)
);
call private.protect_shared_in_company('public.company_brain', 'company_id', '{owner,admin,member}');

-- A row comes, changes and goes together with its memory, by the functions below and by nothing else.
revoke insert, update, delete on public.user_brain, public.company_brain from authenticated;
comment on table public.user_brain is 'What is known about a user, one fact for each slug.';
comment on table public.company_brain is 'What is known about a company, one fact for each slug; its active members share it.';
comment on column public.user_brain.memory_id is 'Its memory in the engine that is in use: Recollect''s own, or mem0.';
comment on column public.company_brain.memory_id is 'Its memory in the engine that is in use: Recollect''s own, or mem0.';

create view private.brain with (security_invoker = true) as
  select 'user' as kind, b.user_id as owner_id, b.id, b.memory_id, b.slug, b.content, b.extra_metadata, b.created_at,
         b.updated_at
  from public.user_brain b
  union all
  select 'company', b.company_id, b.id, b.memory_id, b.slug, b.content, b.extra_metadata, b.created_at, b.updated_at
  from public.company_brain b;
revoke all on private.brain from public, anon, authenticated;
grant select on private.brain to authenticated, service_role;
comment on view private.brain is 'Both brains as one, as far as the caller may see them.';

create view private.brain_owners with (security_invoker = true) as
  select 'user' as kind, p.id, p.rut, p.full_name as name from public.profiles p
  union all
  select 'company', c.id, c.rut, c.name from public.companies c;
revoke all on private.brain_owners from public, anon, authenticated;
grant select on private.brain_owners to authenticated, service_role;
comment on view private.brain_owners is 'Whom there can be facts about, as far as the caller may see them.';

-- History ------------------------------------------------------------------------------------------

create table public.brain_history (
  id bigint generated always as identity primary key,
  user_id uuid references auth.users (id) on delete cascade,
  company_id uuid references public.companies (id) on delete cascade,
  slug text not null,
  event text not null check (event in ('ADD', 'UPDATE', 'DELETE')),
  memory_id text not null,
  before text,
  after text,
  metadata_before jsonb,
  metadata_after jsonb,
  actor uuid,
  reason text,
  made_at timestamptz not null default clock_timestamp(),
  check (num_nonnulls(user_id, company_id) = 1)
);
create index idx_brain_history_user_id on public.brain_history (user_id, slug, id) where user_id is not null;
create index idx_brain_history_company_id on public.brain_history (company_id, slug, id) where company_id is not null;
call private.close_to_all_but_service('public.brain_history');
grant select on public.brain_history to authenticated;
create policy "those concerned look back" on public.brain_history for select to authenticated
  using (user_id = (select auth.uid()) or company_id = any ((select private.my_companies())::uuid[]));
comment on table public.brain_history is 'Each change of a fact: who, when, what it was, what it became, and why.';

create function private.note_brain(changes jsonb) returns void
language plpgsql security definer set search_path = '' as $$
begin
  with noted as (
    insert into public.brain_history
      (user_id, company_id, slug, event, memory_id, before, after, metadata_before, metadata_after, actor, reason)
    select (its ->> 'user_id')::uuid, (its ->> 'company_id')::uuid, its ->> 'slug',
           case when was is null then 'ADD' when becomes is null then 'DELETE' else 'UPDATE' end, its ->> 'memory_id',
           was ->> 'content', becomes ->> 'content', was -> 'extra_metadata', becomes -> 'extra_metadata',
           coalesce((auth.jwt() ->> 'act')::uuid, auth.uid()), nullif(current_setting('recollect.reason', true), '')
    from jsonb_array_elements(changes) c (pair),
      lateral (select nullif(pair -> 0, 'null') as was, nullif(pair -> 1, 'null') as becomes,
                      coalesce(nullif(pair -> 1, 'null'), pair -> 0) as its) p
    -- Where somebody is being deleted, with all that is theirs, nobody is left to look back or to be told.
    where exists (select from auth.users u where u.id = (its ->> 'user_id')::uuid)
      or exists (select from public.companies o where o.id = (its ->> 'company_id')::uuid)
    returning *
  )
  insert into events.log (type, subject, user_id, company_id, actor, data)
  select 'brain.changed', format('brain/%s/%s', coalesce(n.user_id, n.company_id), n.slug), n.user_id, n.company_id, n.actor,
         jsonb_build_object('slug', n.slug, 'event', n.event, 'memoryId', n.memory_id)
  from noted n order by n.id;
  perform pg_notify('recollect_outbox', '');
end $$;

create function private.keep_brain_history() returns trigger
language plpgsql security definer set search_path = ''
-- Planned for a session's first change, and used again for a thousand at once.
set enable_nestloop = off as $$
begin
  -- What a trigger is given depends on what has happened.
  if tg_op = 'INSERT' then
    perform private.note_brain(jsonb_agg(jsonb_build_array(null, to_jsonb(n)))) from after n having count(*) > 0;
  elsif tg_op = 'DELETE' then
    perform private.note_brain(jsonb_agg(jsonb_build_array(to_jsonb(o), null))) from before o having count(*) > 0;
  else
    -- That its memory was made anew elsewhere is no change of what is known.
    perform private.note_brain(jsonb_agg(jsonb_build_array(to_jsonb(o), to_jsonb(n))))
    from before o join after n on n.id = o.id
    where (o.content, o.extra_metadata) is distinct from (n.content, n.extra_metadata) having count(*) > 0;
  end if;
  return null;
end $$;

create function private.touch_brain() returns trigger
language plpgsql set search_path = '' as $$
begin
  new.updated_at := clock_timestamp();
  return new;
end $$;
revoke execute on function private.note_brain, private.keep_brain_history, private.touch_brain from public;

do $$
declare
  target regclass;
begin
  foreach target in array array['public.user_brain', 'public.company_brain']::regclass[] loop
    execute format('create trigger touch before update on %s for each row execute function private.touch_brain()', target);
    execute format('create trigger keep_new after insert on %s referencing new table as after '
                   'for each statement execute function private.keep_brain_history()', target);
    execute format('create trigger keep_changed after update on %s referencing old table as before new table as after '
                   'for each statement execute function private.keep_brain_history()', target);
    execute format('create trigger keep_gone after delete on %s referencing old table as before '
                   'for each statement execute function private.keep_brain_history()', target);
  end loop;
end $$;

create function private.write_fact(
  of_kind text, of_owner uuid, known_as text, held_by text, said text, described jsonb, because text
) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform set_config('recollect.reason', coalesce(because, ''), true);
  if of_kind = 'company' then
    insert into public.company_brain as b (company_id, memory_id, slug, content, extra_metadata)
    values (of_owner, held_by, known_as, said, described)
    on conflict (company_id, slug) do update
      set memory_id = excluded.memory_id, content = excluded.content, extra_metadata = excluded.extra_metadata
      where (b.memory_id, b.content, b.extra_metadata)
        is distinct from (excluded.memory_id, excluded.content, excluded.extra_metadata);
  else
    insert into public.user_brain as b (user_id, memory_id, slug, content, extra_metadata)
    values (of_owner, held_by, known_as, said, described)
    on conflict (user_id, slug) do update
      set memory_id = excluded.memory_id, content = excluded.content, extra_metadata = excluded.extra_metadata
      where (b.memory_id, b.content, b.extra_metadata)
        is distinct from (excluded.memory_id, excluded.content, excluded.extra_metadata);
  end if;
end $$;
comment on function private.write_fact is 'Write a row, whichever table is its, and why.';

create function private.drop_facts(held_by text[], because text) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform set_config('recollect.reason', coalesce(because, ''), true);
  delete from public.user_brain b where b.memory_id = any (held_by);
  delete from public.company_brain b where b.memory_id = any (held_by);
end $$;
comment on function private.drop_facts is 'Delete the rows of these memories, and say why.';

-- Recollect's own engine: a memory comes together with its row, by a function below, and what happens to it happens to
-- the row, in the same transaction, whoever does it.

alter table public.memories
  add constraint kept_as_long_as_known check (made_by is distinct from 'kept' or (expires_at is null and valid_until is null));

create function private.hold_kept_memory() returns trigger
language plpgsql set search_path = '' as $$
begin
  if new.expires_at is not null then
    raise exception 'What is known under a slug does not expire; delete it when it is no longer so.' using errcode = 'RC409';
  end if;
  -- Under which slug it is known is not for others to change.
  new.metadata := new.metadata || jsonb_build_object('slug', old.metadata -> 'slug');
  new.digest := old.digest;
  return new;
end $$;
create trigger hold_kept before update on public.memories
  for each row when (old.made_by = 'kept') execute function private.hold_kept_memory();

create function private.follow_kept_memories() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  why text;
begin
  -- Most memories are none of the brain's.
  select coalesce(m.reason, '') into why from changed m where m.made_by = 'kept' limit 1;
  if not found then
    return null;
  end if;
  perform set_config('recollect.reason', why, true);
  delete from public.user_brain b using changed m
  where m.made_by = 'kept' and m.deleted_at is not null and b.memory_id = m.id::text;
  delete from public.company_brain b using changed m
  where m.made_by = 'kept' and m.deleted_at is not null and b.memory_id = m.id::text;
  update public.user_brain b set content = m.text, extra_metadata = m.metadata - 'slug' from changed m
  where m.made_by = 'kept' and m.deleted_at is null and b.memory_id = m.id::text
    and (b.content, b.extra_metadata) is distinct from (m.text, m.metadata - 'slug');
  update public.company_brain b set content = m.text, extra_metadata = m.metadata - 'slug' from changed m
  where m.made_by = 'kept' and m.deleted_at is null and b.memory_id = m.id::text
    and (b.content, b.extra_metadata) is distinct from (m.text, m.metadata - 'slug');
  -- A memory that is restored gets its row back.
  insert into public.user_brain (user_id, memory_id, slug, content, extra_metadata)
  select m.owner_id, m.id, m.metadata ->> 'slug', m.text, m.metadata - 'slug' from changed m
  where m.made_by = 'kept' and m.event = 'RESTORE' and m.owner_id is not null
  on conflict (memory_id) do nothing;
  insert into public.company_brain (company_id, memory_id, slug, content, extra_metadata)
  select m.company_id, m.id, m.metadata ->> 'slug', m.text, m.metadata - 'slug' from changed m
  where m.made_by = 'kept' and m.event = 'RESTORE' and m.company_id is not null
  on conflict (memory_id) do nothing;
  return null;
end $$;
create trigger follow_kept_changed after update on public.memories
  referencing new table as changed for each statement execute function private.follow_kept_memories();

create function private.follow_purged_memory() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.drop_facts(array[old.id::text], null);
  return null;
end $$;
create trigger follow_kept_gone after delete on public.memories
  for each row when (old.made_by = 'kept' and old.deleted_at is null) execute function private.follow_purged_memory();
revoke execute on function private.hold_kept_memory, private.follow_kept_memories, private.follow_purged_memory from public;

create function private.hold_brain(of_kind text, of_owner uuid) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.hold_to_tenant(of_owner, '{owner,admin,member}');
  if not exists (select from private.brain_owners o where o.kind = of_kind and o.id = of_owner) then
    raise exception using errcode = 'RC404', message = format('There is no such %s.', of_kind);
  end if;
  -- One writer at a time for each owner: of two who save the same slug, one comes second.
  perform pg_advisory_xact_lock(hashtextextended('brain ' || of_owner, 0));
end $$;
comment on function private.hold_brain is 'Hold what is known about somebody until the transaction ends; an error unless the caller may.';

create function private.held_brain(of_kind text, of_owner uuid, slugs text[])
returns table (slug text, memory_id text, content text, extra_metadata jsonb)
-- Volatile, so that it sees what whoever was waited for has done.
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.hold_brain(of_kind, of_owner);
  return query select b.slug::text, b.memory_id::text, b.content, b.extra_metadata
  from private.brain b where b.kind = of_kind and b.owner_id = of_owner and b.slug = any (slugs);
end $$;
comment on function private.held_brain is 'What is known under these slugs, held.';

create function private.keep_facts(
  of_kind text, of_owner uuid, known_to_engine_as text, under_app text, ids uuid[], texts text[], digests bytea[],
  words text[], sizes integer[], model_named text, dimension_named smallint, vectors text, described jsonb,
  because text
) returns table (nth bigint, id uuid, event text)
language plpgsql security definer
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_column
declare
  for_user uuid := case when of_kind = 'user' then of_owner end;
  for_company uuid := case when of_kind = 'company' then of_owner end;
begin
  perform private.hold_brain(of_kind, of_owner);
  perform private.note_model(model_named), set_config('recollect.reason', coalesce(because, ''), true);
  return query
  with given as materialized (
    select g.nth, g.said, g.digest, g.terms, g.tokens, g.vector, described -> (g.nth - 1)::integer as metadata,
           coalesce(m.id, private.new_id()) as id, m.id is not null as is_known
    from unnest(ids, texts, digests, words, sizes, string_to_array(vectors, ' ')) with ordinality
      as g (known, said, digest, terms, tokens, vector, nth)
    left join public.memories m on m.id = g.known and m.tenant = of_owner and m.made_by = 'kept' and m.deleted_at is null
  ), changed as (
    update public.memories m
    set text = g.said, terms = private.terms(of_owner, g.terms), tokens = g.tokens, metadata = g.metadata,
        of_user = known_to_engine_as, event = 'UPDATE', reason = because
    from given g where g.is_known and m.id = g.id
  ), stored as (
    insert into public.memories
      (id, owner_id, company_id, tenant, of_user, of_app, kind, text, metadata, terms, tokens, digest, actor, reason, made_by)
    select g.id, for_user, for_company, of_owner, known_to_engine_as, under_app, 'fact', g.said, g.metadata,
           private.terms(of_owner, g.terms), g.tokens, g.digest, coalesce((auth.jwt() ->> 'act')::uuid, auth.uid()), because,
           'kept'
    from given g where not g.is_known
  ), of_users as (
    insert into public.user_brain as b (user_id, memory_id, slug, content, extra_metadata)
    select for_user, g.id, g.metadata ->> 'slug', g.said, g.metadata - 'slug' from given g
    where not g.is_known and for_user is not null
    -- A row may be there without its memory, left from another engine.
    on conflict (user_id, slug) do update
      set memory_id = excluded.memory_id, content = excluded.content, extra_metadata = excluded.extra_metadata
  ), of_companies as (
    insert into public.company_brain as b (company_id, memory_id, slug, content, extra_metadata)
    select for_company, g.id, g.metadata ->> 'slug', g.said, g.metadata - 'slug' from given g
    where not g.is_known and for_company is not null
    on conflict (company_id, slug) do update
      set memory_id = excluded.memory_id, content = excluded.content, extra_metadata = excluded.extra_metadata
  ), unplaced as (
    -- What another model made of the old text is wrong now, and is made anew.
    delete from public.memory_vectors v using given g where g.is_known and v.memory_id = g.id and v.model <> model_named
  ), placed as (
    insert into public.memory_vectors (memory_id, owner_id, company_id, tenant, model, dimension, embedding)
    select g.id, for_user, for_company, of_owner, model_named, dimension_named, g.vector::vector from given g
    on conflict (tenant, model, memory_id) do update set dimension = excluded.dimension, embedding = excluded.embedding
  )
  select g.nth, g.id, case when g.is_known then 'UPDATE' else 'ADD' end from given g
  order by 1;
end $$;
comment on function private.keep_facts is
  'Store what is known about somebody: a memory for each, changed where it is there and made where it is not.';

create function private.uuid_in(said text) returns uuid
language sql immutable strict set search_path = '' as $$
  select case when said ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then said::uuid end
$$;

create function private.forget_facts(of_kind text, of_owner uuid, slugs text[], because text) returns setof text
language plpgsql security definer set search_path = '' as $$
declare
  known text[];
begin
  perform private.hold_brain(of_kind, of_owner);
  return query select b.slug::text from private.brain b
  where b.kind = of_kind and b.owner_id = of_owner and b.slug = any (slugs);
  known := array(select b.memory_id from private.brain b
                 where b.kind = of_kind and b.owner_id = of_owner and b.slug = any (slugs));
  update public.memories m set deleted_at = now(), event = 'DELETE', reason = because
  from unnest(known) k (id) where m.id = private.uuid_in(k.id) and m.tenant = of_owner and m.deleted_at is null;
  -- What another engine holds has a row alone.
  perform private.drop_facts(known, because);
end $$;
comment on function private.forget_facts is 'Delete the memories of these slugs, and so their rows; says which there were.';

create index idx_memories_kept on public.memories (tenant) where made_by = 'kept' and deleted_at is null;

create function private.brain_drift(of_kind text, of_owner uuid, at_most integer)
returns table (
  kind text, owner uuid, slug text, memory_id text, content text, extra_metadata jsonb, what text, is_newer boolean
)
language sql stable set search_path = '' as $$
  select b.kind, b.owner_id, b.slug, b.memory_id, b.content, b.extra_metadata,
         case when m.id is null then 'no_memory' else 'differs' end, m.updated_at > b.updated_at
  from private.brain b
  left join public.memories m on m.id = private.uuid_in(b.memory_id) and m.tenant = b.owner_id and m.made_by = 'kept'
    and m.deleted_at is null
  where (of_owner is null or (b.kind = of_kind and b.owner_id = of_owner))
    and (m.id is null or m.text <> b.content or m.metadata <> b.extra_metadata || jsonb_build_object('slug', b.slug))
  union all
  select case when m.company_id is null then 'user' else 'company' end, m.tenant, m.metadata ->> 'slug', m.id::text, m.text,
         m.metadata - 'slug', 'no_row', true
  from public.memories m
  where m.made_by = 'kept' and m.deleted_at is null and (of_owner is null or m.tenant = of_owner)
    and not exists (select from public.user_brain b where b.memory_id = m.id::text)
    and not exists (select from public.company_brain b where b.memory_id = m.id::text)
  limit at_most
$$;
comment on function private.brain_drift is
  'Where rows and memories have come apart: a row without its memory, a memory without its row, or two that differ.';

create function private.adopt_memory(orphan uuid, because text) returns boolean
language plpgsql set search_path = '' as $$
declare
  its public.memories;
  of_kind text;
begin
  select m.* into its from public.memories m where m.id = orphan and m.made_by = 'kept' and m.deleted_at is null;
  if not found then
    return false;
  end if;
  of_kind := case when its.company_id is null then 'user' else 'company' end;
  perform private.hold_brain(of_kind, its.tenant);
  if exists (select from private.brain b
             where b.kind = of_kind and b.owner_id = its.tenant and b.slug = its.metadata ->> 'slug'
               and b.memory_id <> orphan::text) then
    update public.memories m set deleted_at = now(), event = 'DELETE', reason = because where m.id = orphan;
    return false;
  end if;
  perform private.write_fact(of_kind, its.tenant, its.metadata ->> 'slug', its.id::text, its.text, its.metadata - 'slug',
                             because);
  return true;
end $$;
comment on function private.adopt_memory is
  'Make the row of a memory say what the memory does; a memory whose slug is known by another one goes. Says which.';

-- mem0 as the engine: no transaction spans both, so what is about to be done is written down first -------------------

create table public.brain_intents (
  id uuid primary key default private.new_id(),
  user_id uuid references auth.users (id) on delete cascade,
  company_id uuid references public.companies (id) on delete cascade,
  about uuid not null generated always as (coalesce(user_id, company_id)) stored,
  slug text not null,
  verb text not null check (verb in ('save', 'delete')),
  actor uuid,
  made_at timestamptz not null default clock_timestamp(),
  given_up_at timestamptz,
  check (num_nonnulls(user_id, company_id) = 1),
  unique (about, slug)
);
create index idx_brain_intents_user_id on public.brain_intents (user_id);
create index idx_brain_intents_company_id on public.brain_intents (company_id);
create index idx_brain_intents_made_at on public.brain_intents (made_at);
call private.close_to_all_but_service('public.brain_intents');
comment on table public.brain_intents is
  'What is being done in mem0 at this moment, or was when something failed. Where the two have come apart, what stands '
  'in the brain''s tables counts.';

create function private.intend(of_kind text, of_owner uuid, slugs text[], to_do text, patience interval)
returns table (slug text, intent uuid, memory_id text, content text, extra_metadata jsonb)
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.hold_brain(of_kind, of_owner);
  return query
  with intended as (
    insert into public.brain_intents as i (user_id, company_id, slug, verb, actor)
    select case when of_kind = 'user' then of_owner end, case when of_kind = 'company' then of_owner end, s.slug, to_do,
           coalesce((auth.jwt() ->> 'act')::uuid, auth.uid())
    from unnest(slugs) s (slug)
    on conflict (about, slug) do update
      -- Another id: whoever wrote the old one down has lost it, and will notice.
      set id = private.new_id(), verb = excluded.verb, actor = excluded.actor, made_at = clock_timestamp(), given_up_at = null
      where i.given_up_at is not null or i.made_at < clock_timestamp() - patience
    returning i.slug, i.id
  )
  select s.slug, i.id, b.memory_id::text, b.content, b.extra_metadata
  from unnest(slugs) s (slug)
  left join intended i on i.slug = s.slug
  left join private.brain b on b.kind = of_kind and b.owner_id = of_owner and b.slug = s.slug;
end $$;
comment on function private.intend is
  'Write down what is to be done with these slugs. No intent where somebody else is at it; theirs is waited for.';

create function private.write_brain(
  of_kind text, of_owner uuid, intents uuid[], slugs text[], memory_ids text[], contents text[], described jsonb, because text
) returns setof text
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
begin
  perform private.hold_brain(of_kind, of_owner);
  return query
  with mine as materialized (
    delete from public.brain_intents i using unnest(intents) with ordinality g (id, nth)
    where i.id = g.id and i.about = of_owner and i.slug = slugs[g.nth]
    returning i.slug, g.nth
  ), written as materialized (
    select m.slug, private.write_fact(
      of_kind, of_owner, m.slug, memory_ids[m.nth], contents[m.nth], described -> (m.nth - 1)::integer, because)
    from mine m
  )
  select w.slug from written w;
end $$;
comment on function private.write_brain is
  'Write the rows of what mem0 has stored, where the intent still stands, and strike the intents; says of which.';

create function private.erase_brain(
  of_kind text, of_owner uuid, intents uuid[], because text
) returns setof text
language plpgsql volatile security definer set search_path = '' as $$
#variable_conflict use_column
declare
  done text[];
begin
  perform private.hold_brain(of_kind, of_owner);
  with mine as (
    delete from public.brain_intents i where i.id = any (intents) and i.about = of_owner returning i.slug
  )
  select array_agg(m.slug) into done from mine m;
  perform private.drop_facts(array(
    select b.memory_id from private.brain b
    where b.kind = of_kind and b.owner_id = of_owner and b.slug = any (done)), because);
  return query select unnest(done);
end $$;
comment on function private.erase_brain is 'Delete the rows of what mem0 has deleted, where the intent still stands.';

create function private.give_up(of_owner uuid, intents uuid[]) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform private.hold_to_tenant(of_owner, '{owner,admin,member}');
  update public.brain_intents i set given_up_at = clock_timestamp() where i.id = any (intents) and i.about = of_owner;
end $$;
comment on function private.give_up is 'Leave it to the next reconciliation to find out what became of these.';

-- A function that acts as its owner looks nothing up but where we say; the vectors' type is where the project has it.
do $$
declare
  home name := (
    select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
begin
  execute format('alter function private.keep_facts set search_path = %I, pg_temp', home);
end $$;

revoke execute on function private.hold_brain, private.held_brain, private.keep_facts, private.forget_facts,
  private.write_fact, private.drop_facts, private.brain_drift, private.adopt_memory, private.uuid_in, private.intend, private.write_brain, private.erase_brain, private.give_up
  from public;
grant execute on function private.hold_brain, private.held_brain, private.keep_facts, private.forget_facts,
  private.uuid_in, private.intend, private.write_brain, private.erase_brain, private.give_up
  to authenticated, service_role;
grant execute on function private.write_fact, private.drop_facts, private.brain_drift, private.adopt_memory to service_role;

-- What an agent would like to have known, where a person decides --------------------------------------------------------

create table public.brain_proposals (
  id uuid primary key default private.new_id(),
  user_id uuid references auth.users (id) on delete cascade,
  company_id uuid references public.companies (id) on delete cascade,
  about uuid not null generated always as (coalesce(user_id, company_id)) stored,
  slug text not null check (slug ~ '^[a-z0-9_]{1,255}$'),
  content text not null check (char_length(content) between 1 and 50000),
  extra_metadata jsonb not null default '{}' check (jsonb_typeof(extra_metadata) = 'object'),
  agent text not null check (char_length(agent) between 1 and 256),
  state text not null default 'pending' check (state in ('pending', 'approved', 'rejected')),
  proposed_by uuid,
  decided_by uuid,
  reason text check (char_length(reason) <= 2000),
  created_at timestamptz not null default now(),
  decided_at timestamptz,
  check (num_nonnulls(user_id, company_id) = 1)
);
create index idx_brain_proposals_user_id on public.brain_proposals (user_id, id) where user_id is not null;
create index idx_brain_proposals_company_id on public.brain_proposals (company_id, id) where company_id is not null;
-- Of one slug, what was proposed last waits for a decision.
create unique index uq_brain_proposals_pending on public.brain_proposals (about, slug) where state = 'pending';
call private.close_to_all_but_service('public.brain_proposals');
grant select, insert on public.brain_proposals to authenticated;
grant update (content, extra_metadata, agent, state, proposed_by, decided_by, reason, created_at, decided_at)
  on public.brain_proposals to authenticated;
create policy "those concerned see it" on public.brain_proposals for select to authenticated
  using (user_id = (select auth.uid()) or company_id = any ((select private.my_companies())::uuid[]));
create policy "those concerned propose" on public.brain_proposals for insert to authenticated
  with check (state = 'pending'
              and (user_id = (select auth.uid()) or company_id = any ((select private.my_companies())::uuid[])));
create policy "those concerned propose anew" on public.brain_proposals for update to authenticated
  using (state = 'pending'
         and (user_id = (select auth.uid()) or company_id = any ((select private.my_companies())::uuid[])))
  with check (user_id = (select auth.uid())
              or (company_id = any ((select private.my_companies())::uuid[])
                  and (state = 'pending' or company_id = any ((select private.my_companies('{owner,admin}'))::uuid[]))));
comment on table public.brain_proposals is
  'Facts that an agent proposes, where agents do not write by themselves: the user decides, and a company''s owners and '
  'admins do.';
