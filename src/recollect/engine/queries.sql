-- whose
-- Whom the transaction acts for.
select auth.uid() as id

-- add_turns
-- Store turns that follow one another in a run.
select nth, id, event from private.add_turns(
  %(workspace)s, %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s,
  %(texts)s::text[], %(roles)s::text[], %(speakers)s::text[], %(digests)s::bytea[], %(words)s::text[], %(sizes)s::integer[],
  %(model)s, %(dimension)s::smallint, %(vectors)s, %(metadata)s::jsonb, %(categories)s::text[], %(importance)s::real,
  %(occurred_at)s::timestamptz[], %(expires_at)s::timestamptz, %(reason)s)

-- add_facts
-- Store facts of one entity, superseding those that they contradict.
select nth, id, event, before from private.add_facts(
  %(workspace)s, %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s,
  %(texts)s::text[], %(digests)s::bytea[], %(slots)s::bytea[], %(words)s::text[], %(sizes)s::integer[],
  %(model)s, %(dimension)s::smallint, %(vectors)s, %(replaces)s::jsonb, %(metadata)s::jsonb, %(categories)s::text[],
  %(weights)s::real[], %(occurred_at)s::timestamptz, %(expires_at)s::timestamptz, %(reason)s, %(made_by)s, %(nearly)s::real)

-- keep_facts
-- Have a memory under each key of a user's or a company's.
select nth, id, event from private.keep_facts(
  %(kind)s, %(tenant)s, %(of_user)s, %(of_app)s, %(ids)s::uuid[], %(texts)s::text[], %(digests)s::bytea[], %(words)s::text[],
  %(sizes)s::integer[], %(model)s, %(dimension)s::smallint, %(vectors)s, %(metadata)s::jsonb, %(reason)s)
order by nth

-- find
-- The best memories, by words and by meaning.
select f.* from private.find_memories(
  coalesce(%(workspace)s, auth.uid()), %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s,
  %(expired)s, %(superseded)s, %(path)s::jsonpath, %(values)s::jsonb,
  %(forms)s, %(of_words)s::integer[], %(model)s, %(vector)s::vector, %(few)s::integer, %(exact)s::integer,
  %(size)s::integer, %(meaning)s::real, %(recency)s::real, %(half_life)s::interval, %(importance)s::real,
  %(threshold)s::real, %(limit)s::integer, %(explain)s) f

-- get_memory
-- One memory.
select m.* from public.memories m where m.id = %(id)s and m.deleted_at is null

-- list_memories
-- Memories in scope, newest first.
select m.* from private.memories_in(
  coalesce(%(workspace)s, auth.uid()), %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s,
  %(expired)s, %(superseded)s, %(path)s::jsonpath, %(values)s::jsonb) m
where %(after_at)s::timestamptz is null or (m.created_at, m.id) < (%(after_at)s, %(after_id)s)
order by m.created_at desc, m.id desc
limit %(limit)s

-- count_memories
-- How many memories are in scope, and how many tokens they have together.
select count(*) as memories, coalesce(sum(m.tokens), 0) as tokens from private.memories_in(
  coalesce(%(workspace)s, auth.uid()), %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s,
  %(expired)s, %(superseded)s, %(path)s::jsonpath, %(values)s::jsonb) m

-- change_memory
-- Change a memory's text, metadata, expiry or time.
with changed as (
  update public.memories m
  set text = coalesce(%(text)s, m.text),
      terms = case when %(text)s is null then m.terms else private.terms(m.tenant, %(words)s) end,
      tokens = coalesce(%(tokens)s, m.tokens),
      digest = coalesce(%(digest)s, m.digest),
      -- Whatever question the new text answers, it need not be the old one's.
      slot = case when %(text)s is null then m.slot end,
      metadata = coalesce(%(metadata)s::jsonb, m.metadata),
      expires_at = case when %(keep_expiry)s then m.expires_at else %(expires_at)s::timestamptz end,
      occurred_at = coalesce(%(occurred_at)s::timestamptz, m.occurred_at),
      event = 'UPDATE', reason = %(reason)s
  where m.id = %(id)s and m.deleted_at is null
  returning m.*
), unplaced as (
  -- What another model made of the old text is wrong now, and is made anew.
  delete from public.memory_vectors v using changed c
  where %(text)s is not null and v.memory_id = c.id and v.model <> coalesce(%(model)s, '')
), placed as (
  insert into public.memory_vectors (memory_id, owner_id, workspace_id, company_id, tenant, model, dimension, embedding)
  select c.id, c.owner_id, c.workspace_id, c.company_id, c.tenant, %(model)s, vector_dims(%(vector)s::vector), %(vector)s::vector from changed c
  where %(vector)s::text is not null
  on conflict (tenant, model, memory_id) do update set dimension = excluded.dimension, embedding = excluded.embedding
)
select c.* from changed c

-- speakers_of
-- What memories' new texts are put beside: who spoke, and whom a fact is about.
select m.id, m.kind, m.speaker, m.of_user, m.of_agent, m.of_app from public.memories m
where m.id = any (%(ids)s::uuid[]) and m.deleted_at is null

-- delete_memory
-- Leave a tombstone.
update public.memories m set deleted_at = now(), event = 'DELETE', reason = %(reason)s
where m.id = %(id)s and m.deleted_at is null

-- delete_these
-- Leave tombstones for several memories.
update public.memories m set deleted_at = now(), event = 'DELETE', reason = %(reason)s
where m.id = any (%(ids)s::uuid[]) and m.deleted_at is null

-- delete_memories
-- Leave a tombstone for every memory in scope, expired and superseded ones included.
select private.delete_memories(
  coalesce(%(workspace)s, auth.uid()), %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s,
  %(path)s::jsonpath, %(values)s::jsonb, %(reason)s) as gone

-- restore_memory
-- Take a tombstone away again.
update public.memories m set deleted_at = null, event = 'RESTORE', reason = %(reason)s
where m.id = %(id)s and m.deleted_at is not null
returning m.*

-- give_feedback
-- Note what somebody thinks of a memory.
update public.memories m set feedback = %(feedback)s, feedback_reason = %(reason)s, event = 'FEEDBACK', reason = null
where m.id = %(id)s and m.deleted_at is null
returning m.*

-- versions_of
-- A memory's history, oldest first, deleted ones included.
select v.memory_id, v.version, v.event, v.text, v.metadata, v.actor, v.reason, v.made_at
from public.memory_versions v where v.memory_id = %(id)s
union all
select m.id, m.version, m.event, m.text, m.metadata, m.actor, m.reason, m.updated_at
from public.memories m where m.id = %(id)s
order by 2

-- links_of
-- Facts that say nearly the same as this one, nearest first.
select case l.memory_id when %(id)s then l.other_id else l.memory_id end as memory_id, l.similarity
from public.memory_links l where %(id)s in (l.memory_id, l.other_id)
order by l.similarity desc, 1

-- current_facts
-- The newest facts of an entity, for a model to compare new ones with.
select m.id, m.text from private.memories_in(
  coalesce(%(workspace)s, auth.uid()), %(of_user)s, %(of_agent)s, %(of_app)s,
  case when num_nonnulls(%(of_user)s::text, %(of_agent)s::text, %(of_app)s::text) = 0 then %(of_run)s::text end,
  false, false, null, null) m
where m.kind = 'fact' and m.of_user is not distinct from %(of_user)s and m.of_agent is not distinct from %(of_agent)s
  and m.of_app is not distinct from %(of_app)s
order by m.created_at desc, m.id desc
limit %(limit)s

-- entities_in_use
-- Whom a tenant's memories are about.
select e.type, e.name, count(*) as memories, min(m.created_at) as first_at, max(m.updated_at) as updated_at
from private.memories_in(coalesce(%(workspace)s, auth.uid()), null, null, null, null, true, true, null, null) m
cross join lateral (values ('user', m.of_user), ('agent', m.of_agent), ('app', m.of_app), ('run', m.of_run)) e (type, name)
where e.name is not null and (e.type, e.name) > (%(after_type)s::text, %(after_name)s::text)
group by e.type, e.name
order by e.type, e.name
limit %(limit)s

-- purge_deleted
-- Forget a batch of memories whose tombstones have stood long enough.
delete from public.memories where id in (
  select m.id from public.memories m where m.deleted_at < now() - %(age)s::interval
  order by m.deleted_at limit %(batch)s for update skip locked
)

-- purge_streams
-- Forget streams that nothing is left of, and with them whom they were about.
delete from public.memory_streams s where not exists (select from public.memories m where m.stream = s.id)

-- without_vectors
-- A batch of memories that have no vector of this model yet, in the order of their ids.
select m.id, m.text, m.speaker from public.memories m
where m.id > %(after)s
  and not exists (select from public.memory_vectors v where v.tenant = m.tenant and v.memory_id = m.id and v.model = %(model)s)
order by m.id
limit %(batch)s

-- place_vectors
-- Store the vectors of memories whose text is still the one that they were made of.
insert into public.memory_vectors (memory_id, owner_id, workspace_id, company_id, tenant, model, dimension, embedding)
select m.id, m.owner_id, m.workspace_id, m.company_id, m.tenant, %(model)s, vector_dims(g.vector::vector), g.vector::vector
from unnest(%(ids)s::uuid[], %(texts)s::text[], %(vectors)s::text[]) as g (id, text, vector)
join public.memories m on m.id = g.id and m.text = g.text
on conflict (tenant, model, memory_id) do nothing

-- drop_other_vectors
-- Forget a batch of vectors of other models, once every memory has one of this model.
delete from public.memory_vectors where ctid in (
  select v.ctid from public.memory_vectors v where v.model <> %(model)s limit %(batch)s
)

-- other_models
-- Whether there are vectors of another model than this.
select exists (select from public.memory_models m where m.name <> %(model)s) as are_there

-- forget_other_models
-- Once there is none left of any other.
delete from public.memory_models where name <> %(model)s

-- large_tenants
-- Tenants with so many vectors of a model that an index pays.
select v.tenant, v.dimension, private.index_for(v.tenant, %(model)s) as index_name,
       private.is_indexed(v.tenant, %(model)s) as is_indexed
from public.memory_vectors v
where v.model = %(model)s group by v.tenant, v.dimension having count(*) >= %(many)s

-- said
-- What a user said of themselves, under their own name, in these turns.
select m.text, coalesce(m.occurred_at, m.created_at) as happened_at from public.memories m
where m.id = any (%(ids)s::uuid[]) and m.owner_id = %(user_id)s and m.of_user = %(user_id)s::text
  and m.kind = 'turn' and m.role = 'user' and m.deleted_at is null
  -- What was taken from an imported chat is told of by the chat.
  and m.metadata ->> 'source' is distinct from 'chat'
