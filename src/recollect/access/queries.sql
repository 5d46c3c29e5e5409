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
values (%(digest)s, %(user_id)s, now() + %(lifetime)s)

-- use_link
-- Use a sign-in link up; a second use finds nothing.
delete from private.sign_in_links where digest = %(digest)s and expires_at > now() returning user_id

-- add_session
-- Start a session.
insert into private.sessions (user_id, digest, user_agent, idle_timeout, expires_at)
values (%(user_id)s, %(digest)s, %(user_agent)s, %(idle)s, now() + %(lifetime)s)
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
-- Note an attempt before it is judged, and count the recent ones.
with noted as (insert into private.sign_in_failures (subject) values (%(subject)s))
select count(*) + 1 as attempts from private.sign_in_failures
where subject = %(subject)s and failed_at > now() - %(window)s

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
values ((select auth.uid()), %(name)s, %(prefix)s, %(digest)s, %(scopes)s, %(expires_at)s)
returning id, name, prefix, scopes, created_at, last_used_at, expires_at, revoked_at

-- list_keys
-- The caller's API keys, newest first.
select id, name, prefix, scopes, created_at, last_used_at, expires_at, revoked_at
from private.api_keys where user_id = (select auth.uid())
  and (%(before)s::timestamptz is null or (created_at, id) < (%(before)s, %(before_id)s))
order by created_at desc, id desc limit %(limit)s

-- revoke_key
-- Make a key worthless; it stays in the list.
update private.api_keys set revoked_at = coalesce(revoked_at, now())
where id = %(id)s and user_id = (select auth.uid())
returning id, name, prefix, scopes, created_at, last_used_at, expires_at, revoked_at

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
