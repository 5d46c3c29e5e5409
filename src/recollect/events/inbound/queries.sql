-- record
-- Remember what was received; no row if it had been received before.
insert into events.received (source, id) values (%(source)s::text, %(id)s::text)
on conflict (source, id) do nothing
returning received_at

-- unrecord
-- Take back that something was received.
delete from events.received where source = %(source)s::text and id = %(id)s::text

-- record_latest
-- Remember what was said last about something; no row if it was this, a short while ago.
insert into events.received as before (source, id, fingerprint)
values (%(source)s::text, %(id)s::text, %(fingerprint)s::bytea)
on conflict (source, id) do update set fingerprint = excluded.fingerprint, received_at = now()
where before.fingerprint is distinct from excluded.fingerprint
  or before.received_at < now() - %(within)s::interval
returning received_at

-- make_premium
-- Mark a user premium, which publishes user.updated; says what came of it.
select private.make_premium(%(user_id)s::uuid) as outcome

-- publish
-- Append an event of the service itself to the outbox.
select private.publish_event(%(type)s::text, %(subject)s::text, %(data)s::jsonb, null::uuid)

-- forget
-- Delete a batch of what was received too long ago to come again.
delete from events.received where (source, id) in (
  select source, id from events.received
  where received_at < now() - %(age)s::interval
  limit %(batch)s::integer for update skip locked
)
