-- send
-- Leave a message for a user.
select private.send_mail(%(user_id)s, %(kind)s, %(subject)s, %(body)s, %(link)s, %(hold)s) as id

-- list_messages
-- One page of the caller's messages, newest first.
select id, kind, subject, body, link, state, error, created_at, sent_at, read_at from mail.messages
where user_id = (select auth.uid())
  and (%(before)s::timestamptz is null or (created_at, id) < (%(before)s::timestamptz, %(before_id)s::uuid))
order by created_at desc, id desc limit %(limit)s

-- count_unread
-- How many messages the caller has not read.
select count(*)::int as unread from mail.messages where user_id = (select auth.uid()) and read_at is null

-- mark_read
-- Mark one of the caller's messages as read, when it is first.
update mail.messages set read_at = coalesce(read_at, now())
where id = %(id)s and user_id = (select auth.uid())
returning id, kind, subject, body, link, state, error, created_at, sent_at, read_at

-- mark_all_read
-- Mark the caller's messages as read, up to the newest one that they have seen.
update mail.messages set read_at = now()
where user_id = (select auth.uid()) and read_at is null and created_at <= %(until)s::timestamptz

-- delete_message
-- Delete one of the caller's messages.
delete from mail.messages where id = %(id)s and user_id = (select auth.uid())

-- list_muted
-- The kinds that the caller has muted.
select kind from mail.preferences where user_id = (select auth.uid()) order by kind

-- unmute_others
-- Forget what the caller had muted, but for these kinds.
delete from mail.preferences
where user_id = (select auth.uid()) and kind <> all (%(kinds)s::text[])

-- mute_kinds
-- Mute these kinds for the caller.
insert into mail.preferences (user_id, kind)
select auth.uid(), kind from unnest(%(kinds)s::text[]) as kind
on conflict (user_id, kind) do nothing

-- is_muted
-- Whether a user, named by an unsubscribe link, has muted this kind.
select exists (
  select from mail.preferences where user_id = %(user_id)s and kind = %(kind)s
) as is_muted

-- mute
-- Mute a kind for a user, as an unsubscribe link asks.
insert into mail.preferences (user_id, kind) values (%(user_id)s, %(kind)s)
on conflict (user_id, kind) do nothing

-- unmute
-- Take an unsubscription back.
delete from mail.preferences where user_id = %(user_id)s and kind = %(kind)s

-- hold_waiting
-- Keep what waits for the dashboard alone, where there is nothing to send it with.
update mail.messages set state = 'held', letter = null, claimed_at = null
where state = 'waiting' and (claimed_at is null or claimed_at < now() - %(lease)s::interval)

-- settle
-- Set aside what waits but is not to be sent: muted since, or to nobody who can be written to.
update mail.messages m set letter = null, claimed_at = null, state = case
  when exists (
    select from mail.preferences p where p.user_id = m.user_id and p.kind in (m.kind, '*')
  ) then 'muted'
  else 'held'
end
where m.state = 'waiting'
  and (m.claimed_at is null or m.claimed_at < now() - %(lease)s::interval)
  and (
    private.mail_address(m.user_id) is null
    or exists (select from mail.preferences p where p.user_id = m.user_id and p.kind in (m.kind, '*'))
  )

-- lock_claims
-- One sender claims at a time: two would choose the same user, and one of them think that it was the last.
select pg_advisory_xact_lock(hashtext('recollect: mail claims'))

-- claim
-- Put the messages of the next user who has some into a letter; give its first ones, and their number.
with next_user as (
  select o.user_id, o.address from mail.outgoing o
  where o.user_id > %(after)s
    and (o.state = 'waiting' or o.created_at > now() - %(held_for)s::interval)
    and (o.claimed_at is null or o.claimed_at < now() - %(lease)s::interval)
  order by o.user_id limit 1
), claimable as (
  select o.id, o.letter, o.claimed_at from mail.outgoing o
  where o.user_id = (select user_id from next_user)
    and (o.state = 'waiting' or o.created_at > now() - %(held_for)s::interval)
    and (o.claimed_at is null or o.claimed_at < now() - %(lease)s::interval)
), before as (
  select letter from claimable where letter is not null order by claimed_at nulls first, letter limit 1
), present as (
  select gen_random_uuid() as letter
), claimed as (
  update mail.messages m
  set letter = coalesce((select letter from before), (select letter from present)),
      claimed_at = now(), state = 'waiting'
  from claimable c
  where m.id = c.id and c.letter is not distinct from (select letter from before)
    -- Judged again on the row as it is: a slow sender may have finished with it meanwhile.
    and m.state in ('waiting', 'held') and m.claimed_at is not distinct from c.claimed_at
  returning m.id, m.user_id, m.letter, m.kind, m.subject, m.body, m.link, m.created_at
)
select claimed.*, next_user.address, profiles.full_name, count(*) over () as total
from claimed join next_user using (user_id) left join public.profiles on profiles.id = claimed.user_id
order by claimed.created_at, claimed.id limit %(shown)s

-- mark_sent
-- A letter was taken by the mail server.
update mail.messages set state = 'sent', sent_at = now(), claimed_at = null, error = null
where letter = %(letter)s and state = 'waiting'

-- mark_failed
-- A letter was refused for good.
update mail.messages set state = 'failed', claimed_at = null, error = %(error)s
where letter = %(letter)s and state = 'waiting'

-- release
-- A letter could not be sent, for a reason that has nothing to do with it.
update mail.messages set letter = null, claimed_at = null, error = %(error)s
where letter = %(letter)s and state = 'waiting'

-- postpone
-- A letter was not taken now; after the last of the delays it has failed.
update mail.messages
-- Where it may have arrived all the same it stays a letter of its own.
set letter = case when %(may_have_arrived)s then letter end, claimed_at = null, error = %(error)s,
    postponed = postponed + 1,
    not_before = now() + (%(delays)s::interval[])[postponed + 1],
    state = case when postponed < cardinality(%(delays)s::interval[]) then 'waiting' else 'failed' end
where letter = %(letter)s and state = 'waiting'

-- purge
-- Delete messages past their time, a batch at a time.
delete from mail.messages where id in (
  select id from mail.messages where created_at < now() - %(age)s::interval
  limit %(batch)s for update skip locked
)

-- managers
-- Those who manage a workspace.
select user_id from public.workspace_members
where workspace_id = %(workspace_id)s::uuid and role in ('owner', 'admin')

-- admins
-- Those who run the server.
select user_id from private.admins
