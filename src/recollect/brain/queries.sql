-- owner
-- Somebody whom there can be facts about, and what they are known by outside.
select o.id, o.rut, o.name from private.brain_owners o where o.kind = %(kind)s and o.id = %(owner)s

-- companies_called
-- Companies of a name, in whichever case; two are too many to choose from.
select o.id from private.brain_owners o where o.kind = 'company' and lower(o.name) = lower(%(name)s) limit 2

-- known
-- Owners with what is known about them under these slugs; a row without a slug where nothing is.
select o.kind, o.id as owner, o.rut, b.slug, b.memory_id, b.content, b.extra_metadata
from unnest(%(kinds)s::text[], %(owners)s::uuid[]) as g (kind, id)
join private.brain_owners o on o.kind = g.kind and o.id = g.id
left join private.brain b on b.kind = g.kind and b.owner_id = g.id and b.slug = any (%(slugs)s::text[])

-- held
-- What is known under these slugs, held until the transaction ends.
select slug, memory_id, content, extra_metadata from private.held_brain(%(kind)s, %(owner)s, %(slugs)s::text[])

-- get_fact
-- What is known under a slug.
select b.* from private.brain b where b.kind = %(kind)s and b.owner_id = %(owner)s and b.slug = %(slug)s

-- list_facts
-- What is known about somebody, by slug.
select b.* from private.brain b
where b.kind = %(kind)s and b.owner_id = %(owner)s and b.slug > %(after)s
  and (%(category)s::text is null or b.extra_metadata ->> 'category' = %(category)s)
order by b.slug
limit %(limit)s

-- facts_of_memories
-- The facts whose memories these are.
select b.* from private.brain b
where b.kind = %(kind)s and b.owner_id = %(owner)s and b.memory_id = any (%(memory_ids)s::text[])

-- history_of
-- What became of a slug, newest first.
select h.id, h.slug, h.event, h.before, h.after, h.metadata_before, h.metadata_after, h.actor, h.reason, h.made_at
from public.brain_history h
where case %(kind)s when 'user' then h.user_id = %(owner)s else h.company_id = %(owner)s end
  and h.slug = %(slug)s and (%(after)s::bigint is null or h.id < %(after)s)
order by h.id desc
limit %(limit)s

-- forget
-- Delete facts together with their memories in the native engine.
select private.forget_facts(%(kind)s, %(owner)s, %(slugs)s::text[], %(reason)s) as slug

-- intend
-- Write down what is to be done in mem0 with these slugs.
select slug, intent, memory_id, content, extra_metadata
from private.intend(%(kind)s, %(owner)s, %(slugs)s::text[], %(verb)s, %(patience)s::interval)

-- write
-- Write the rows of what mem0 has stored.
select private.write_brain(
  %(kind)s, %(owner)s, %(intents)s::uuid[], %(slugs)s::text[], %(memory_ids)s::text[], %(contents)s::text[],
  %(described)s::jsonb, %(reason)s) as slug

-- erase
-- Delete the rows of what mem0 has deleted.
select private.erase_brain(%(kind)s, %(owner)s, %(intents)s::uuid[], %(reason)s) as slug

-- give_up
-- Leave it to a reconciliation what became of these.
select private.give_up(%(owner)s, %(intents)s::uuid[])

-- drift
-- Where rows and the native engine's memories have come apart: a batch, in the order of owners and slugs.
select d.* from private.brain_drift(%(kind)s::text, %(owner)s::uuid, %(limit)s::integer) d

-- count_facts
-- How many facts there are, of one owner or of all.
select count(*) as facts from private.brain b
where %(owner)s::uuid is null or (b.kind = %(kind)s and b.owner_id = %(owner)s)

-- adopt
-- Give a memory of the native engine its row back.
select private.adopt_memory(%(memory_id)s::uuid, %(reason)s) as is_adopted

-- owners_to_settle
-- Whom mem0 may have something left behind about: everybody known of, or those with intents that were left.
select distinct case when i.user_id is null then 'company' else 'user' end as kind, i.about as owner
from public.brain_intents i
where i.given_up_at is not null or i.made_at < clock_timestamp() - %(patience)s::interval

-- owners_with_facts
-- Owners of facts, by kind and id.
select distinct b.kind, b.owner_id as owner from private.brain b
where (b.kind, b.owner_id) > (%(after_kind)s::text, %(after_owner)s::uuid)
order by 1, 2
limit %(limit)s

-- intents_of
-- What is being done in mem0 for somebody, and what was left.
select i.id, i.slug, i.verb, i.given_up_at is not null or i.made_at < clock_timestamp() - %(patience)s::interval as is_left
from public.brain_intents i where i.about = %(owner)s

-- row_of_memory
-- The fact whose memory this is, whoever it is about.
select b.kind, b.owner_id as owner, b.slug from private.brain b where b.memory_id = %(memory_id)s

-- facts_of
-- Everything that is known about somebody.
select b.* from private.brain b where b.kind = %(kind)s and b.owner_id = %(owner)s

-- companies_to_load
-- Companies by id, with what their memories are made from.
select id, tax_regime, activity_name, activity_code, legal_representative, start_date, accounting_start_month
from public.companies
where (%(only)s::uuid is null or id = %(only)s::uuid) and (%(after)s::uuid is null or id > %(after)s::uuid)
order by id limit %(limit)s

-- users_to_load
-- Users by id, with what their memories are made from.
select id, full_name, email, phone, role
from public.profiles
where (%(only)s::uuid is null or id = %(only)s::uuid) and (%(after)s::uuid is null or id > %(after)s::uuid)
order by id limit %(limit)s

-- count_companies
-- How many companies there are.
select count(*) from public.companies

-- count_users
-- How many users there are.
select count(*) from public.profiles

-- propose
-- Propose a fact, in place of what waits for a decision under its slug.
insert into public.brain_proposals as p (user_id, company_id, slug, content, extra_metadata, agent)
values (case %(kind)s when 'user' then %(owner)s::uuid end, case %(kind)s when 'company' then %(owner)s::uuid end,
        %(slug)s, %(content)s, %(described)s::jsonb, %(agent)s)
on conflict (about, slug) where state = 'pending' do update
  set content = excluded.content, extra_metadata = excluded.extra_metadata, agent = excluded.agent
returning p.*

-- list_proposals
-- Proposals about these, or about all whom the caller can see where none is named; newest first.
select p.* from public.brain_proposals p
where (%(owners)s::uuid[] = '{}' or p.user_id = any (%(owners)s) or p.company_id = any (%(owners)s))
  and (%(state)s::text is null or p.state = %(state)s)
  and (%(before)s::timestamptz is null or (p.created_at, p.id) < (%(before)s, %(before_id)s::uuid))
order by p.created_at desc, p.id desc
limit %(limit)s

-- get_proposal
-- A proposal, what is known in its place now, and whether the caller may decide about it.
select p.*, b.content as known, coalesce(b.extra_metadata, '{}') as known_metadata,
  (p.user_id = auth.uid() or p.company_id = any (private.my_companies('{owner,admin}'))) is true as may_decide
from public.brain_proposals p
left join private.brain b
  on b.kind = case when p.user_id is null then 'company' else 'user' end and b.owner_id = p.about and b.slug = p.slug
where p.id = %(proposal_id)s

-- decide
-- Decide about a proposal that nobody has decided about.
update public.brain_proposals p set state = %(state)s, reason = %(reason)s
where p.id = %(proposal_id)s and p.state = 'pending'
returning p.*

-- recent_facts
-- Owners with what was last said about them, and how many facts there are; a row without a slug where none is.
select o.kind, f.*
from unnest(%(kinds)s::text[], %(owners)s::uuid[]) as g (kind, id)
join private.brain_owners o on o.kind = g.kind and o.id = g.id
left join lateral (
  select b.slug, b.content, b.extra_metadata ->> 'category' as category, b.updated_at, count(*) over () as facts
  from private.brain b where b.kind = g.kind and b.owner_id = g.id
  order by b.updated_at desc, b.slug
  limit %(limit)s
) f on true
