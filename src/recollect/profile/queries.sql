-- chain
-- The version wanted or that of a moment, with all that it is built on back to its checkpoint, in one row.
-- Bounds are taken from rows as they are: under row security an index is not entered by what is worked out beside it.
with upto as (
  select case when %(at)s::timestamptz is null then %(version)s else coalesce(
    (select a.version from user_memory_snapshots a
     where a.user_id = %(user_id)s and a.created_at <= %(at)s order by a.created_at desc limit 1), 0) end as version
), target as (
  select s.version from user_memory_snapshots s
  where s.user_id = %(user_id)s and s.version <= (select u.version from upto u)
  order by s.version desc limit 1
), base as (
  select s.version, s.full_snapshot_content from user_memory_snapshots s
  where s.user_id = %(user_id)s and s.version <= (select t.version from target t) and s.is_full_snapshot
  order by s.version desc limit 1
), since as (
  select coalesce((select b.version from base b), 1) as version
)
select jsonb_agg(s.version order by s.version) as versions,
       jsonb_agg(case when s.version <> (select b.version from base b) then s.patch end order by s.version) as patches,
       string_agg(s.checksum, '' order by s.version) as checksums, max(s.created_at) as created_at,
       (select b.full_snapshot_content from base b) as content
from user_memory_snapshots s
where s.user_id = %(user_id)s and s.version >= (select b.version from since b) and s.version <= (select t.version from target t)
having count(*) > 0

-- stretch
-- A stretch of versions, one after another, with whatever checkpoints are among them.
select version, patch, full_snapshot_content as content, checksum, created_at, actor, origin, source_description
from user_memory_snapshots
where user_id = %(user_id)s and version > %(after)s order by version limit %(limit)s

-- add_version
-- Add a version to a profile that is still at the one before it.
insert into user_memory_snapshots
  (user_id, version, patch, is_full_snapshot, full_snapshot_content, source_description, checksum, origin)
select %(user_id)s, %(version)s, %(patch)s::jsonb, %(content)s::jsonb is not null, %(content)s::jsonb, %(reason)s,
       %(checksum)s, %(origin)s
where private.held_profile_version(%(user_id)s) = %(version)s - 1
returning version, created_at

-- list_versions
-- One page of a profile's versions, the latest first.
select version, created_at, actor, origin, source_description, is_full_snapshot, patch from user_memory_snapshots
where user_id = %(user_id)s and version < %(before)s order by version desc limit %(limit)s

-- crowded_profiles
-- A page of profiles that have checkpoints to spare.
select s.user_id, max(s.version) as upto from user_memory_snapshots s
where s.user_id > %(after)s and s.is_full_snapshot and s.version > 1 and s.version %% %(kept_every)s <> 0
  and octet_length(s.patch::text) <= %(large)s
group by s.user_id having count(*) > %(kept_latest)s order by s.user_id limit %(limit)s

-- spare_checkpoints
-- Checkpoints to spare: before the latest few, not each tenth, and not one that spares reading a large patch.
select version from user_memory_snapshots
where user_id = %(user_id)s and is_full_snapshot and version > 1 and version %% %(kept_every)s <> 0
  and octet_length(patch::text) <= %(large)s
order by version desc offset %(kept_latest)s

-- thin_checkpoints
-- Forget the whole documents of these versions; their patches stay.
update user_memory_snapshots set is_full_snapshot = false, full_snapshot_content = null
where user_id = %(user_id)s and version = any (%(versions)s)

-- record_activities
-- Record what a user did; what is there under its name already stays as it is.
insert into activities (user_id, kind, content, data, external_id, happened_at)
select %(user_id)s, g.kind, g.content, g.data, g.external_id, coalesce(g.happened_at, now())
from unnest(%(kinds)s::text[], %(contents)s::text[], %(data)s::jsonb[], %(external_ids)s::text[],
            %(moments)s::timestamptz[]) as g (kind, content, data, external_id, happened_at)
on conflict (user_id, external_id) where external_id is not null do nothing

-- list_activities
-- One page of what a user did, the latest recorded first.
select id, kind, content, data, external_id, happened_at, recorded_at, considered_in from activities
where user_id = %(user_id)s and (%(kind)s::text is null or kind = %(kind)s)
  and (%(before_time)s::timestamptz is null or (recorded_at, id) < (%(before_time)s, %(before_id)s))
order by recorded_at desc, id desc limit %(limit)s

-- delete_activity
-- Forget one thing that a user did.
delete from activities where user_id = %(user_id)s and id = %(id)s

-- new_activities
-- What a user did that no update has taken into account, the oldest first.
select id, kind, content, data, happened_at from activities
where user_id = %(user_id)s and considered_in is null order by id limit %(limit)s

-- new_events
-- What was told of a user since the last update that went well.
select l.position, l.type, l.data, l.happened_at from events.log l
where l.user_id = %(user_id)s and l.type = any (%(types)s) and l.position > coalesce(
  (select max(u.events_upto) from profile_updates u where u.user_id = %(user_id)s and u.state <> 'failed'), 0)
order by l.position limit %(limit)s

-- active_users
-- A page of those whose profile does not know of all that they did.
select id from private.active_users(%(types)s, now() - %(within)s::interval, %(after)s, %(limit)s) as a (id)

-- claim_update
-- Begin to update a profile, unless somebody is at it or has done it in this period.
select private.claim_profile_update(%(user_id)s, %(period)s, %(lease)s) as id

-- end_update
-- Record what became of an update.
select id, user_id, state, period, made_by, prompt_version, activities, left_out, from_version, to_version,
       input_tokens, output_tokens, error, started_at, ended_at
from private.end_profile_update(
  %(id)s, %(state)s, %(made_by)s, %(prompt_version)s, %(considered)s::uuid[], %(activities)s, %(left_out)s,
  %(events_upto)s, %(from_version)s, %(to_version)s, %(error)s)

-- list_updates
-- One page of a profile's updates, the latest first.
select id, user_id, state, period, made_by, prompt_version, activities, left_out, from_version, to_version,
       input_tokens, output_tokens, error, started_at, ended_at
from profile_updates
where user_id = %(user_id)s
  and (%(before_time)s::timestamptz is null or (started_at, id) < (%(before_time)s, %(before_id)s))
order by started_at desc, id desc limit %(limit)s

-- purge_updates
-- Forget updates of long ago, save each profile's latest that went well: it says how far events were considered.
delete from profile_updates where id in (
  select u.id from profile_updates u
  where u.ended_at < now() - %(age)s::interval and exists (
    select from profile_updates later
    where later.user_id = u.user_id and later.state in ('updated', 'unchanged') and later.ended_at > u.ended_at)
  limit %(batch)s
)

-- purge_activities
-- Forget what was taken into account long ago.
delete from activities where id in (
  select id from activities
  where considered_in is not null and recorded_at < now() - %(age)s::interval limit %(batch)s
)

-- active_prompt
-- What a model is told at present.
select version, prompt_text, description, is_active, created_by, created_at from profile_prompts where is_active

-- list_prompts
-- All that models have been told, the latest first.
select version, prompt_text, description, is_active, created_by, created_at from profile_prompts order by version desc

-- retire_prompt
-- Have no prompt in use.
update profile_prompts set is_active = false where is_active

-- use_prompt
-- Take a text into use again.
update profile_prompts set is_active = true where version = %(version)s
returning version, prompt_text, description, is_active, created_by, created_at

-- add_prompt
-- Add a text, and take it into use.
insert into profile_prompts (version, prompt_text, description, is_active, created_by)
select coalesce(max(version), 0) + 1, %(prompt_text)s, %(description)s, true, %(created_by)s::uuid from profile_prompts
returning version, prompt_text, description, is_active, created_by, created_at

-- said_in_chats
-- What a user said in these stretches of their chats, if it may be analysed: the latest of it, shortened.
select left(t.text, %(longest)s) as content, coalesce(t.said_at, e.imported_at) as happened_at
from unnest(%(chats)s::uuid[], %(firsts)s::integer[], %(lasts)s::integer[], %(times)s::timestamptz[])
  as e (chat_id, first, last, imported_at)
join chat_histories c on c.id = e.chat_id and c.user_id = %(user_id)s
join chat_turns t on t.chat_id = e.chat_id and t.number between e.first and e.last and t.role = 'user'
where private.may_analyse(c.user_id, c.workspace_id)
order by happened_at desc, t.number desc limit %(most)s
