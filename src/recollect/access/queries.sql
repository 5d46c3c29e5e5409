-- add_user
-- Create a user with a profile and a personal workspace.
select private.add_user(%(email)s, %(full_name)s) as id

-- welcome_user
-- Give a user made elsewhere a profile and a personal workspace.
select private.welcome_user(%(user_id)s, %(full_name)s) as workspace_id

-- remove_user
-- Delete a user and, by cascade, everything of theirs.
select private.remove_user(%(user_id)s) as removed

-- find_user
-- One user, by e-mail address or by id.
select * from private.find_users(%(email)s, %(user_id)s)

-- list_users
-- Users by e-mail address, one page.
select * from private.find_users(after_email => %(after)s, at_most => %(limit)s)

-- make_admin
-- Let a user act for all others.
insert into private.admins (user_id) values (%(user_id)s) on conflict do nothing

-- unmake_admin
-- Let a user act for others no longer.
delete from private.admins where user_id = %(user_id)s

-- first_admin
-- The admin who was there first.
select u.* from private.admins a cross join lateral private.find_users(known => a.user_id) u
order by a.created_at limit 1

-- lock_first_admin
-- Two servers that start at once make one admin.
select pg_advisory_xact_lock(hashtext('recollect: first admin'))

-- find_password
-- The password hash of the user with this address.
select u.id, p.hash from private.find_users(%(email)s) u left join private.passwords p on p.user_id = u.id

-- find_password_of
-- The password hash of a user.
select hash from private.passwords where user_id = %(user_id)s

-- put_password
-- Set a user's password.
insert into private.passwords (user_id, hash) values (%(user_id)s, %(hash)s)
on conflict (user_id) do update set hash = excluded.hash, changed_at = now()

-- end_other_sessions
-- Sign a user out everywhere but here.
delete from private.sessions where user_id = %(user_id)s and id is distinct from %(except_id)s

-- drop_links
-- Make a user's unused sign-in links worthless.
delete from private.sign_in_links where user_id = %(user_id)s

-- add_link
-- Keep the digest of a one-time sign-in link.
insert into private.sign_in_links (digest, user_id, expires_at)
values (%(digest)s, %(user_id)s, now() + %(lifetime)s::interval)

-- use_link
-- Use a sign-in link up; a second use finds nothing.
delete from private.sign_in_links where digest = %(digest)s and expires_at > now() returning user_id

-- add_session
-- Start a session.
insert into private.sessions (user_id, digest, user_agent, idle_timeout, expires_at)
values (%(user_id)s, %(digest)s, %(user_agent)s, %(idle)s, now() + %(lifetime)s::interval)
returning expires_at

-- drop_session_by_digest
-- End whatever session this token belonged to.
delete from private.sessions where digest = %(digest)s

-- record_sign_in
-- Remember when a user last signed in.
select private.record_sign_in(%(user_id)s)

-- lock_attempts
-- One attempt per account at a time, so that parallel guesses are counted too.
select pg_advisory_xact_lock(hashtextextended(encode(%(subject)s, 'hex'), 0))

-- count_attempt
-- Note an attempt before it is judged, unless there were too many; refused ones do not prolong the wait.
with recent as (
  select count(*) as attempts, min(failed_at) as oldest from private.sign_in_failures
  where subject = %(subject)s and failed_at > now() - %(window)s::interval
), noted as (
  insert into private.sign_in_failures (subject, failed_at)
  select %(subject)s, clock_timestamp() from recent where attempts < %(allowed)s
  returning failed_at
)
select (select failed_at from noted) as noted,
       ceil(extract(epoch from coalesce(oldest, now()) + %(window)s::interval - now()))::int as wait
from recent

-- forget_attempt
-- Take back one attempt, which has turned out to be right.
delete from private.sign_in_failures where subject = %(subject)s and failed_at = %(moment)s

-- forget_attempts
-- A success wipes the slate.
delete from private.sign_in_failures where subject = %(subject)s

-- list_sessions
-- The caller's live sessions.
select id, user_agent, created_at, last_seen_at, expires_at from private.sessions
where user_id = (select auth.uid()) and expires_at > now() order by last_seen_at desc

-- end_session
-- Sign one browser out.
delete from private.sessions where id = %(id)s and user_id = (select auth.uid())

-- add_key
-- Keep the digest of a new API key.
insert into private.api_keys (user_id, name, prefix, digest, scopes, expires_at)
values ((select auth.uid()), %(name)s, %(prefix)s, %(digest)s, %(scopes)s,
        least(%(expires_at)s::timestamptz, (select private.my_key_expires_at())))
returning id, name, prefix, scopes, created_at, last_used_at, expires_at, revoked_at

-- list_keys
-- The caller's API keys, newest first.
select id, name, prefix, scopes, created_at, last_used_at, expires_at, revoked_at
from private.api_keys where user_id = (select auth.uid())
  and (%(before)s::timestamptz is null or (created_at, id) < (%(before)s, %(before_id)s))
order by created_at desc, id desc limit %(limit)s

-- revoke_key
-- Make a key worthless, with the keys that were made by it; they stay in the list.
with recursive family as (
  select id from private.api_keys where id = %(id)s and user_id = (select auth.uid())
  union
  select k.id from private.api_keys k join family f on k.made_by = f.id
), revoked as (
  update private.api_keys set revoked_at = coalesce(revoked_at, now()) where id in (select id from family)
  returning id, name, prefix, scopes, created_at, last_used_at, expires_at, revoked_at
)
select * from revoked where id = %(id)s

-- whoami
-- The caller as a user.
select p.full_name from public.profiles p where p.id = (select auth.uid())

-- claim_idempotency_key
-- Be the first to use this key; waits for whoever is using it now.
insert into private.idempotency_keys (user_id, key, fingerprint)
values ((select auth.uid()), %(key)s, %(fingerprint)s)
on conflict (user_id, key) do update
  set fingerprint = excluded.fingerprint, status = null, sealed_response = null, created_at = now()
  where idempotency_keys.created_at < now() - interval '24 hours'
returning key

-- find_idempotent_response
-- What was answered the first time.
select fingerprint, status, sealed_response from private.idempotency_keys
where user_id = (select auth.uid()) and key = %(key)s

-- keep_idempotent_response
-- Remember the answer, in the transaction of the change it answers for.
update private.idempotency_keys set status = %(status)s, sealed_response = %(sealed)s
where user_id = (select auth.uid()) and key = %(key)s

-- purge_expired
-- Remove what has run out: sessions, links, counted attempts, remembered answers.
with sessions as (delete from private.sessions where expires_at < now() or last_seen_at + idle_timeout < now() returning 1),
     links as (delete from private.sign_in_links where expires_at < now() returning 1),
     failures as (delete from private.sign_in_failures where failed_at < now() - interval '1 day' returning 1),
     answers as (delete from private.idempotency_keys where created_at < now() - interval '24 hours' returning 1)
select (select count(*) from sessions) + (select count(*) from links)
     + (select count(*) from failures) + (select count(*) from answers) as purged

-- list_workspaces
-- The caller's workspaces, oldest first.
select w.id, w.name, w.personal_to is not null as is_personal, m.role, w.created_at, w.updated_at
from public.workspaces w
join public.workspace_members m on m.workspace_id = w.id and m.user_id = (select auth.uid())
where %(after)s::timestamptz is null
  or (w.created_at, w.id) > (%(after)s::timestamptz, %(after_id)s::uuid)
order by w.created_at, w.id limit %(limit)s

-- get_workspace
-- One workspace of the caller's.
select w.id, w.name, w.personal_to is not null as is_personal, m.role, w.created_at, w.updated_at
from public.workspaces w
join public.workspace_members m on m.workspace_id = w.id and m.user_id = (select auth.uid())
where w.id = %(id)s

-- create_workspace
-- A workspace together with its first owner, the caller.
select public.create_workspace(%(name)s) as id

-- delete_workspace
-- Delete a workspace and everything in it.
delete from public.workspaces where id = %(id)s returning id

-- rename_workspace
-- Call a workspace something else.
update public.workspaces set name = %(name)s, updated_at = now() where id = %(id)s returning id

-- list_workspace_members
-- The people of a workspace, in the order in which they came.
with page as (
  select user_id, role, created_at from public.workspace_members
  where workspace_id = %(shared_id)s and (
    %(after)s::timestamptz is null
    or (created_at, user_id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  )
  order by created_at, user_id limit %(limit)s
)
select page.*, f.email, f.full_name
from page left join private.fellows((select array_agg(user_id) from page)) f on f.id = page.user_id
order by page.created_at, page.user_id

-- get_workspace_member
-- One of the people of a workspace.
select m.user_id, m.role, m.created_at, f.email, f.full_name
from public.workspace_members m left join private.fellows(array[m.user_id]) f on true
where m.workspace_id = %(shared_id)s and m.user_id = %(user_id)s

-- add_workspace_member
-- Let somebody into a workspace, unless they are in it already.
insert into public.workspace_members (workspace_id, user_id, role)
values (%(shared_id)s, private.user_to_add(%(shared_id)s, %(email)s, %(user_id)s), %(role)s)
on conflict do nothing returning user_id

-- change_workspace_member
-- Give one of a workspace's people another role.
with changed as (
  update public.workspace_members set role = %(role)s
  where workspace_id = %(shared_id)s and user_id = %(user_id)s
  returning user_id, role, created_at
)
select changed.*, f.email, f.full_name
from changed left join private.fellows(array[changed.user_id]) f on true

-- remove_workspace_member
-- Take somebody out of a workspace.
delete from public.workspace_members where workspace_id = %(shared_id)s and user_id = %(user_id)s
returning user_id

-- list_projects
-- A workspace's projects, by name.
select id, workspace_id, name, created_at, updated_at from public.projects
where workspace_id = %(workspace_id)s and name > %(after)s order by name limit %(limit)s

-- get_project
-- One project of a workspace.
select id, workspace_id, name, created_at, updated_at from public.projects
where workspace_id = %(workspace_id)s and id = %(id)s

-- add_project
-- Begin a project.
insert into public.projects (workspace_id, name) values (%(workspace_id)s, %(name)s)
returning id, workspace_id, name, created_at, updated_at

-- rename_project
-- Call a project something else.
update public.projects set name = %(name)s, updated_at = now()
where workspace_id = %(workspace_id)s and id = %(id)s
returning id, workspace_id, name, created_at, updated_at

-- delete_project
-- Delete a project and everything in it.
delete from public.projects where workspace_id = %(workspace_id)s and id = %(id)s returning id

-- list_companies
-- The companies that the caller is an active member of, oldest first.
select c.id, c.name, c.rut, c.tax_regime, c.activity_name, c.activity_code, c.legal_representative,
       c.start_date, c.accounting_start_month, m.role, c.created_at, c.updated_at
from public.companies c
join public.company_members m on m.company_id = c.id and m.user_id = (select auth.uid())
where %(after)s::timestamptz is null
  or (c.created_at, c.id) > (%(after)s::timestamptz, %(after_id)s::uuid)
order by c.created_at, c.id limit %(limit)s

-- get_company
-- One company that the caller is an active member of.
select c.id, c.name, c.rut, c.tax_regime, c.activity_name, c.activity_code, c.legal_representative,
       c.start_date, c.accounting_start_month, m.role, c.created_at, c.updated_at
from public.companies c
join public.company_members m on m.company_id = c.id and m.user_id = (select auth.uid())
where c.id = %(id)s

-- create_company
-- A company together with its first owner, the caller.
select public.create_company(%(name)s, %(rut)s) as id

-- change_company
-- Change those of a company's fields that were sent.
update public.companies c set updated_at = now(),
  (name, rut, tax_regime, activity_name, activity_code, legal_representative, start_date,
   accounting_start_month) = (
    select n.name, n.rut, n.tax_regime, n.activity_name, n.activity_code, n.legal_representative,
           n.start_date, n.accounting_start_month
    from jsonb_populate_record(c, %(changes)s::jsonb) n
  )
where c.id = %(id)s returning c.id

-- list_company_members
-- The people of a company, in the order in which they came.
with page as (
  select user_id, role, status, created_at from public.company_members
  where company_id = %(shared_id)s and (
    %(after)s::timestamptz is null
    or (created_at, user_id) > (%(after)s::timestamptz, %(after_id)s::uuid)
  )
  order by created_at, user_id limit %(limit)s
)
select page.*, f.email, f.full_name
from page left join private.fellows((select array_agg(user_id) from page)) f on f.id = page.user_id
order by page.created_at, page.user_id

-- get_company_member
-- One of the people of a company.
select m.user_id, m.role, m.status, m.created_at, f.email, f.full_name
from public.company_members m left join private.fellows(array[m.user_id]) f on true
where m.company_id = %(shared_id)s and m.user_id = %(user_id)s

-- add_company_member
-- Let somebody into a company, unless they are in it already.
insert into public.company_members (company_id, user_id, role, status)
values (%(shared_id)s, private.user_to_add(%(shared_id)s, %(email)s, %(user_id)s), %(role)s, %(status)s)
on conflict do nothing returning user_id

-- change_company_member
-- Give one of a company's people another role or status.
with changed as (
  update public.company_members
  set role = coalesce(%(role)s, role), status = coalesce(%(status)s, status)
  where company_id = %(shared_id)s and user_id = %(user_id)s
  returning user_id, role, status, created_at
)
select changed.*, f.email, f.full_name
from changed left join private.fellows(array[changed.user_id]) f on true

-- remove_company_member
-- Take somebody out of a company.
delete from public.company_members where company_id = %(shared_id)s and user_id = %(user_id)s
returning user_id

-- get_profile
-- The caller as a person.
select id, email, full_name, phone, rut, role, is_premium, created_at, updated_at
from public.profiles where id = (select auth.uid())

-- change_profile
-- Change those of the caller's fields that were sent.
update public.profiles p set updated_at = now(),
  (full_name, phone, rut) = (
    select n.full_name, n.phone, n.rut from jsonb_populate_record(p, %(changes)s::jsonb) n
  )
where p.id = (select auth.uid())
returning id, email, full_name, phone, rut, role, is_premium, created_at, updated_at
