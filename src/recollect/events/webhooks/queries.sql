-- list_endpoints
-- One page of a workspace's endpoints, oldest first.
select id, workspace_id, url, types, description, disabled_at is null as is_enabled, disabled_at, disabled_reason,
       failing_since, created_by, created_at
from events.endpoints
where workspace_id = %(workspace_id)s
  and (%(after)s::timestamptz is null or (created_at, id) > (%(after)s::timestamptz, %(after_id)s::uuid))
order by created_at, id limit %(limit)s

-- get_endpoint
-- One endpoint of a workspace.
select id, workspace_id, url, types, description, disabled_at is null as is_enabled, disabled_at, disabled_reason,
       failing_since, created_by, created_at
from events.endpoints where workspace_id = %(workspace_id)s and id = %(id)s

-- find_endpoint
-- One endpoint of any of the caller's workspaces.
select id, workspace_id, url, types, description, disabled_at is null as is_enabled, disabled_at, disabled_reason,
       failing_since, created_by, created_at
from events.endpoints where id = %(id)s

-- role_in_workspace
-- Whether the caller manages a workspace, and how many endpoints it has.
select w.id = any ((select private.my_workspaces('{owner,admin}'))::uuid[]) as is_manager,
       (select count(*)::int from events.endpoints e where e.workspace_id = w.id) as endpoints
from public.workspaces w where w.id = %(workspace_id)s

-- add_endpoint
-- A new endpoint.
insert into events.endpoints (id, workspace_id, url, types, description, sealed_secret)
values (%(id)s, %(workspace_id)s, %(url)s, %(types)s::text[], %(description)s, %(sealed_secret)s)
returning id, workspace_id, url, types, description, disabled_at is null as is_enabled, disabled_at, disabled_reason,
          failing_since, created_by, created_at

-- change_endpoint
-- Change what is given of an endpoint, and leave the rest.
update events.endpoints
set url = coalesce(%(url)s::text, url),
    types = coalesce(%(types)s::text[], types),
    description = coalesce(%(description)s::text, description),
    disabled_at = case %(is_enabled)s::boolean
                    when true then null when false then coalesce(disabled_at, now()) else disabled_at end,
    disabled_reason = case %(is_enabled)s::boolean
                        when true then null
                        when false then coalesce(disabled_reason, 'Disabled by hand.') else disabled_reason end
where workspace_id = %(workspace_id)s and id = %(id)s
returning id, workspace_id, url, types, description, disabled_at is null as is_enabled, disabled_at, disabled_reason,
          failing_since, created_by, created_at

-- change_secret
-- Give an endpoint another secret; the former one signs too for a day.
update events.endpoints set sealed_secret = %(sealed_secret)s
where workspace_id = %(workspace_id)s and id = %(id)s
returning id, workspace_id, url, types, description, disabled_at is null as is_enabled, disabled_at, disabled_reason,
          failing_since, created_by, created_at

-- remove_endpoint
-- Remove an endpoint, with its deliveries.
delete from events.endpoints where workspace_id = %(workspace_id)s and id = %(id)s returning id

-- test_endpoint
-- Have an endpoint be sent a test event.
select private.test_webhook(%(id)s)

-- list_deliveries
-- One page of an endpoint's deliveries, the newest first.
select id, endpoint_id, position, type, subject, state, attempt,
       case when state = 'pending' then next_attempt_at end as next_attempt_at,
       last_status, last_error, last_answer, took_ms, payload, created_at, finished_at
from events.deliveries
where endpoint_id = %(endpoint_id)s and (%(state)s::text is null or state = %(state)s)
  and (%(before)s::bigint is null or position < %(before)s::bigint)
order by position desc limit %(limit)s

-- get_delivery
-- One delivery to an endpoint.
select id, endpoint_id, position, type, subject, state, attempt,
       case when state = 'pending' then next_attempt_at end as next_attempt_at,
       last_status, last_error, last_answer, took_ms, payload, created_at, finished_at
from events.deliveries where endpoint_id = %(endpoint_id)s and id = %(id)s

-- replay
-- Send one delivery again, or all that failed since a moment; says how many.
select private.replay_webhook(%(endpoint_id)s, one => %(id)s::uuid, since => %(since)s::timestamptz) as replayed

-- take_due
-- Take deliveries that are due, the first of each lane, for as long as an attempt can last.
with heads as materialized (
  select h.id, h.next_attempt_at, h.position from events.heads h
  where h.endpoint_id = %(endpoint_id)s and h.next_attempt_at <= now()
  -- Some to spare, for those that other workers are taking.
  order by h.next_attempt_at, h.position limit %(batch)s::int * 4
), due as (
  select d.id from events.deliveries d join heads h on h.id = d.id
  -- Once more, of the row itself: another worker may have taken it at this moment.
  where d.state = 'pending' and d.next_attempt_at <= now()
    and exists (
      select from events.endpoints e
      where e.id = %(endpoint_id)s and e.disabled_at is null and coalesce(e.rests_until <= now(), true)
    )
  order by h.next_attempt_at, h.position
  -- One that fails all the time is probed, not stormed.
  limit (select case when e.failures < %(batch)s::int then %(batch)s::int else 1 end
         from events.endpoints e where e.id = %(endpoint_id)s)
  for update of d skip locked
)
update events.deliveries d set next_attempt_at = now() + %(lease)s::interval
from due, events.endpoints e
where d.id = due.id and e.id = d.endpoint_id
returning d.id, d.attempt, now() - d.wanted_at as age, d.payload, e.id as endpoint_id, e.url, e.sealed_secret,
          case when e.former_secret_until > now() then e.former_sealed_secret end as former_sealed_secret

-- next_due
-- When an endpoint next has something to do, if anything still waits.
select greatest(min(h.next_attempt_at), min(e.rests_until)) as at
from events.heads h join events.endpoints e on e.id = h.endpoint_id
where h.endpoint_id = %(endpoint_id)s and e.disabled_at is null

-- record_attempt
-- How an attempt went, unless another worker has recorded one meanwhile.
update events.deliveries
set attempt = attempt + 1, state = %(state)s,
    next_attempt_at = now() + coalesce(%(delay)s::interval, interval '0'),
    last_status = %(status)s::int, last_error = %(error)s::text, last_answer = %(answer)s::text,
    took_ms = %(took_ms)s::int,
    finished_at = case when %(state)s = 'pending' then null else clock_timestamp() end
where id = %(id)s and state = 'pending' and attempt = %(attempt)s

-- endpoint_answers
-- An endpoint that has answered is well.
update events.endpoints set failures = 0, failing_since = null, rests_until = null
where id = %(id)s and (failures, failing_since, rests_until) is distinct from (0, null::timestamptz, null::timestamptz)

-- endpoint_fails
-- Attempts at an endpoint have failed, and none went well.
update events.endpoints
set failures = failures + %(failed)s::int, failing_since = coalesce(failing_since, now())
where id = %(id)s returning failures

-- rest_endpoint
-- Leave an endpoint alone for a while.
update events.endpoints set rests_until = now() + %(rest)s::interval where id = %(id)s

-- disable_endpoint
-- Disable an endpoint, at once or if its failures are as many and as old as that takes; tell its workspace.
with disabled as (
  update events.endpoints set disabled_at = now(), disabled_reason = %(reason)s::text
  where id = %(id)s and disabled_at is null
    and (%(at_once)s::boolean
         or (failures >= %(failures)s::int and failing_since <= now() - %(age)s::interval))
  returning id, workspace_id, url
)
select private.publish_event(
  'webhook.disabled', 'webhook/' || id,
  jsonb_build_object('endpoint', id, 'host', substring(url from '^[a-z]+://([^/?#]*)'), 'reason', %(reason)s::text),
  user_id => null, workspace_id => workspace_id)
from disabled

-- queue_delivering
-- Have an endpoint be looked after at that moment; once, however often it is asked for.
select private.enqueue_job(
  'webhooks.deliver', jsonb_build_object('endpoint', %(endpoint_id)s::uuid), key => %(key)s::text,
  due => %(at)s::timestamptz, for_workspace => %(workspace_id)s::uuid, origin => 'event')

-- forgotten_endpoints
-- Endpoints with deliveries that should have been tried a while ago.
select distinct e.id from events.endpoints e join events.heads h on h.endpoint_id = e.id
where e.disabled_at is null and coalesce(e.rests_until < now() - %(age)s::interval, true)
  and h.next_attempt_at < now() - %(age)s::interval

-- purge_deliveries
-- Forget deliveries that ended long ago, a batch at a time.
delete from events.deliveries where id in (
  select id from events.deliveries
  where finished_at < now() - %(age)s::interval limit %(batch)s for update skip locked
)
