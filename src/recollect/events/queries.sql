-- publish
-- Append to the outbox.
select private.publish_event(
  %(type)s, %(subject)s, %(data)s::jsonb, user_id => %(user_id)s::uuid,
  workspace_id => %(workspace_id)s::uuid, company_id => %(company_id)s::uuid)

-- relay
-- Give committed events their positions, and queue what follows from them.
select private.relay_events(%(batch)s, %(subscriptions)s::jsonb) as relayed

-- list_events
-- Events that the caller may hear, in their order: each way to hear one has its index.
with wanted as not materialized (
  select position, type, subject, user_id, workspace_id, company_id, actor, data, happened_at from events.log
  where position > %(after)s::bigint and (%(types)s::text[] is null or type = any (%(types)s::text[]))
), own as (
  select * from wanted where user_id = (select auth.uid()) order by position limit %(limit)s
), of_workspaces as (
  select * from wanted where workspace_id = any ((select private.my_workspaces())::uuid[])
  order by position limit %(limit)s
), of_companies as (
  select * from wanted where company_id = any ((select private.my_companies())::uuid[])
  order by position limit %(limit)s
), each_once as (
  select distinct on (position) * from (
    select * from own union all select * from of_workspaces union all select * from of_companies
  ) heard order by position
)
select * from each_once order by position limit %(limit)s

-- list_all_events
-- Everybody's events, in their order.
select position, type, subject, user_id, workspace_id, company_id, actor, data, happened_at from events.log
where position > %(after)s::bigint and (%(types)s::text[] is null or type = any (%(types)s::text[]))
order by position limit %(limit)s

-- latest_events
-- Events that the caller may hear, the newest first.
with wanted as not materialized (
  select position, type, subject, user_id, workspace_id, company_id, actor, data, happened_at from events.log
  where position > %(after)s::bigint and (%(before)s::bigint is null or position < %(before)s)
    and (%(types)s::text[] is null or type = any (%(types)s::text[]))
), own as (
  select * from wanted where user_id = (select auth.uid()) order by position desc limit %(limit)s
), of_workspaces as (
  select * from wanted where workspace_id = any ((select private.my_workspaces())::uuid[])
  order by position desc limit %(limit)s
), of_companies as (
  select * from wanted where company_id = any ((select private.my_companies())::uuid[])
  order by position desc limit %(limit)s
), each_once as (
  select distinct on (position) * from (
    select * from own union all select * from of_workspaces union all select * from of_companies
  ) heard order by position desc
)
select * from each_once order by position desc limit %(limit)s

-- latest_of_all_events
-- Everybody's events, the newest first.
select position, type, subject, user_id, workspace_id, company_id, actor, data, happened_at from events.log
where position > %(after)s::bigint and (%(before)s::bigint is null or position < %(before)s)
  and (%(types)s::text[] is null or type = any (%(types)s::text[]))
order by position desc limit %(limit)s

-- present
-- Up to where events have been told, and from where on they are still known.
select newest, oldest from private.known_events()

-- hear
-- The next events, each with those of the listeners who may hear it.
with batch as (
  select * from events.log where position > %(after)s::bigint order by position limit %(limit)s
), heard as (
  select h.heard, array_agg(h.listener) as listeners
  from private.hearers(%(after)s::bigint, (select max(position) from batch), %(listeners)s::uuid[]) h
  group by h.heard
)
select b.position, b.type, b.subject, b.user_id, b.workspace_id, b.company_id, b.actor, b.data, b.happened_at,
       h.listeners
from batch b left join heard h on h.heard = b.position
order by b.position

-- ensure_cursor
-- A reader that is new begins with what happens next.
insert into events.cursors (name, position) select %(name)s, newest from private.known_events()
on conflict (name) do nothing

-- lock_cursor
-- How far a reader is, unless somebody else is reading on in its name.
select position from events.cursors where name = %(name)s for update skip locked

-- move_cursor
-- A reader has got this far.
update events.cursors set position = %(position)s::bigint, updated_at = now() where name = %(name)s

-- purge_events
-- Forget what was told long ago, a batch at a time.
delete from events.log where id in (
  select id from events.log where position is not null and happened_at < now() - %(age)s::interval
  limit %(batch)s for update skip locked
)
