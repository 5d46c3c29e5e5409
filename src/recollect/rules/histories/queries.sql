-- author
-- Who is asking.
select auth.uid() as id

-- hold_imports
-- Let one import of a user's chats go after the other, so that each knows what the others have stored.
select pg_advisory_xact_lock(hashtextextended('recollect: chats of ' || %(user_id)s::text, 0))

-- known_turns
-- Which of these turns are here already.
select t.digest from chat_turns t where t.user_id = %(user_id)s and t.digest = any (%(digests)s::bytea[])

-- find_sessions
-- The chats that these sessions are kept as, by their place in the list.
select g.nth, c.id
from unnest(%(sources)s::text[], %(sessions)s::text[]) with ordinality as g (source, session, nth)
join chat_histories c on c.user_id = %(user_id)s and c.workspace_id is not distinct from %(workspace)s::uuid
  and c.source = g.source and md5(c.session) = md5(g.session)

-- put_chats
-- Keep chats that have something new, each under its session.
insert into chat_histories as c
  (user_id, workspace_id, project_id, source, file, session, project, author, title, started_at)
select %(user_id)s, %(workspace)s::uuid, %(project)s::uuid,
       g.source, g.file, g.session, g.project, g.author, g.title, g.started_at
from unnest(%(sources)s::text[], %(files)s::text[], %(sessions)s::text[], %(projects)s::text[], %(authors)s::text[],
            %(titles)s::text[], %(started)s::timestamptz[])
  as g (source, file, session, project, author, title, started_at)
on conflict (user_id, workspace_id, source, md5(session)) do update set
  imported_at = clock_timestamp(),
  file = excluded.file,
  project_id = coalesce(excluded.project_id, c.project_id),
  project = coalesce(c.project, excluded.project),
  author = coalesce(c.author, excluded.author),
  title = coalesce(excluded.title, c.title),
  started_at = coalesce(c.started_at, excluded.started_at)
returning c.id, c.source, c.session

-- add_turns
-- Add turns to their chats, after what each has already, and say where they went.
with told as (
  select * from unnest(%(chats)s::uuid[], %(numbers)s::integer[], %(roles)s::text[], %(kinds)s::text[], %(texts)s::text[],
                       %(doings)s::text[], %(languages)s::text[], %(masked)s::text[], %(times)s::timestamptz[],
                       %(digests)s::bytea[])
    as t (chat_id, number, role, kind, text, doing, language, masked, said_at, digest)
), ends as (
  select t.chat_id,
         greatest(0, (select max(c.number) from chat_turns c where c.chat_id = t.chat_id) + 1 - min(t.number)) as further
  from told t group by t.chat_id
)
insert into chat_turns (chat_id, user_id, number, role, kind, text, doing, language, masked, said_at, digest)
select t.chat_id, %(user_id)s, t.number + e.further, t.role, t.kind, t.text, t.doing, t.language,
       string_to_array(t.masked, ','), t.said_at, t.digest
from told t join ends e on e.chat_id = t.chat_id
on conflict (user_id, digest) do nothing

-- project_in
-- A project of a workspace.
select p.id from projects p where p.id = %(project)s and p.workspace_id = %(workspace)s

-- list_chats
-- One page of a user's chats, those that got turns last first.
select c.id, c.workspace_id, c.project_id, c.source, c.file, c.session, c.project, c.author, c.title, c.started_at,
       c.imported_at, (select count(*) from chat_turns t where t.chat_id = c.id) as turns
from chat_histories c
where c.user_id = %(user_id)s and (%(workspace)s::uuid is null or c.workspace_id = %(workspace)s)
  and (%(after_time)s::timestamptz is null or (c.imported_at, c.id) < (%(after_time)s, %(after_id)s::uuid))
order by c.imported_at desc, c.id desc limit %(limit)s

-- get_chat
-- One chat.
select c.id, c.workspace_id, c.project_id, c.source, c.file, c.session, c.project, c.author, c.title, c.started_at,
       c.imported_at, (select count(*) from chat_turns t where t.chat_id = c.id) as turns
from chat_histories c where c.user_id = %(user_id)s and c.id = %(id)s

-- list_turns
-- One page of a chat's turns, in their order.
select t.id, t.number, t.role, t.kind, t.text, t.doing, t.language, t.masked, t.said_at from chat_turns t
where t.user_id = %(user_id)s and t.chat_id = %(id)s and t.number > %(after)s order by t.number limit %(limit)s

-- delete_chat
-- Forget a chat and its turns.
delete from chat_histories c where c.user_id = %(user_id)s and c.id = %(id)s

-- chats_to_read
-- The next chats to learn from, the earliest imported first: all or those named.
select c.id, c.source, c.file, c.session, c.project, c.author, c.title, c.started_at from chat_histories c
where c.user_id = %(user_id)s and c.workspace_id is not distinct from %(workspace)s::uuid and c.id > %(after)s::uuid
  and (%(ids)s::uuid[] is null or c.id = any (%(ids)s))
order by c.id limit %(limit)s

-- turns_to_read
-- The next turns of these chats, chat by chat.
select t.chat_id, t.id, t.number, t.role, t.kind, t.text, t.doing, t.said_at, t.analysed_in is null as is_new
from chat_turns t
where t.chat_id = any (%(ids)s::uuid[]) and (t.chat_id, t.number) > (%(after_chat)s::uuid, %(after_number)s::integer)
order by t.chat_id, t.number limit %(limit)s

-- say_consent
-- Note what somebody says to the analysis of their chats, unless they have said it.
insert into chat_consents (user_id, workspace_id, granted, how)
select %(user_id)s, %(workspace)s::uuid, %(granted)s, %(how)s
where %(granted)s is distinct from (
  select c.granted from chat_consents c
  where c.user_id = %(user_id)s and c.workspace_id is not distinct from %(workspace)s::uuid
  order by c.created_at desc, c.id desc limit 1)

-- list_consents
-- What somebody has last said, for their own chats and for each workspace.
select distinct on (c.workspace_id) c.workspace_id, c.granted, c.how, c.created_at from chat_consents c
where c.user_id = %(user_id)s order by c.workspace_id nulls first, c.created_at desc, c.id desc

-- may_analyse
-- Whether rules may be learnt from somebody's chats.
select private.may_analyse(%(user_id)s, %(workspace)s::uuid) as allowed

-- get_settings
-- Whose agreement a workspace takes for enough.
select s.consent from rule_settings s where s.workspace_id = %(workspace)s

-- put_settings
-- Say whose agreement a workspace takes for enough.
insert into rule_settings as s (workspace_id, consent, changed_by) values (%(workspace)s, %(consent)s, auth.uid())
on conflict (workspace_id) do update set
  consent = excluded.consent, changed_by = excluded.changed_by, changed_at = clock_timestamp()
returning s.consent
