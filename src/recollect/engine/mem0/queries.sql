-- rights
-- Whom the transaction acts for, and whose memories they may read and write.
select auth.uid() as id, current_user = 'service_role' as is_service, (auth.jwt() ->> 'act')::uuid as really,
       private.my_tenants() as readable,
       private.my_tenants('{owner,admin,reviewer,member}') as writable

-- nearest
-- A tenant's memories in scope, nearest to a vector of the same model first.
select m.id, m.vector <=> %(vector)s::vector as distance, m.payload
from mem0.memories_in(
  %(tenant)s::uuid, %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s, %(expired)s, %(path)s::jsonpath, %(values)s::jsonb) m
where m.payload #>> '{of,model}' = %(model)s
order by distance, m.id
limit %(limit)s

-- saying
-- A tenant's memories in scope that say the words, those that say them closest together first.
select m.id, ts_rank_cd(to_tsvector('simple', m.payload ->> 'text_lemmatized'), plainto_tsquery('simple', %(words)s)) as score,
       m.payload
from mem0.memories_in(
  %(tenant)s::uuid, %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s, %(expired)s, %(path)s::jsonpath, %(values)s::jsonb) m
where to_tsvector('simple', m.payload ->> 'text_lemmatized') @@ plainto_tsquery('simple', %(words)s)
order by score desc, m.id
limit %(limit)s

-- known_digests
-- Which of these a tenant has already.
select m.payload #>> '{of,digest}' as digest, m.id from mem0.memories m
where m.tenant = %(tenant)s and m.payload #>> '{of,digest}' = any (%(digests)s::text[])

-- fetch_memory
-- One memory.
select m.id, m.tenant, m.payload from mem0.memories m where m.id = %(id)s

-- page
-- A tenant's memories in scope, newest first.
select m.id, m.tenant, m.payload from mem0.memories_in(
  %(tenant)s, %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s, %(expired)s, %(path)s::jsonpath, %(values)s::jsonb) m
where %(after_at)s::timestamptz is null
   or ((m.payload ->> 'created_at')::timestamptz, m.id) < (%(after_at)s, %(after_id)s)
order by (m.payload ->> 'created_at')::timestamptz desc, m.id desc
limit %(limit)s

-- count
-- How many of a tenant's memories are in scope.
select count(*) as memories, coalesce(sum((m.payload #>> '{of,tokens}')::integer), 0) as tokens from mem0.memories_in(
  %(tenant)s, %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s, %(expired)s, %(path)s::jsonpath, %(values)s::jsonb) m

-- note
-- Keep what became of a memory.
insert into mem0.history (memory_id, owner_id, workspace_id, company_id, event, old_memory, new_memory, actor, reason)
values (%(memory_id)s, %(owner)s, %(workspace)s, %(company)s, %(event)s, %(old)s, %(new)s, %(actor)s, %(reason)s)

-- versions
-- What became of a memory, oldest first; also of a deleted one.
select h.tenant, h.memory_id, row_number() over (order by h.id) as version, h.event, h.old_memory, h.new_memory, h.actor,
       h.reason, h.made_at
from mem0.history h where h.memory_id = %(id)s
order by h.id

-- holders
-- Tenants with memories that this application made.
select distinct m.tenant from mem0.memories m where m.payload #>> '{of,app}' = %(app)s

-- entities
-- Whom a tenant's memories are about.
select e.type, e.name, count(*) as memories, min((m.payload ->> 'created_at')::timestamptz) as first_at,
       max((m.payload ->> 'updated_at')::timestamptz) as updated_at
from mem0.memories m
cross join lateral (values ('user', m.payload #>> '{of,user}'), ('agent', m.payload #>> '{of,agent}'),
  ('app', m.payload #>> '{of,app}'), ('run', m.payload #>> '{of,run}')) e (type, name)
where m.tenant = %(tenant)s and e.name is not null and (e.type, e.name) > (%(after_type)s::text, %(after_name)s::text)
group by e.type, e.name
order by e.type, e.name
limit %(limit)s

-- purge
-- Forget a batch of what was said by memories that were deleted long enough ago.
delete from mem0.history where id in (
  select h.id from mem0.history h
  where h.memory_id in (
    select d.memory_id from mem0.history d where d.event = 'DELETE' and d.made_at < now() - %(age)s::interval)
  limit %(batch)s
)
