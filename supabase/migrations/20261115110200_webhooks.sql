-- Webhooks out: the endpoints that a workspace names, and every delivery to them.

create table events.endpoints (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  url text not null check (char_length(url) between 1 and 2000),
  types text[] not null default '{*}' check (cardinality(types) between 1 and 50),
  description text check (char_length(description) <= 500),
  sealed_secret bytea not null,
  former_sealed_secret bytea,
  former_secret_until timestamptz,
  disabled_at timestamptz,
  disabled_reason text,
  failures integer not null default 0,
  failing_since timestamptz,
  rests_until timestamptz,
  created_by uuid references auth.users (id) on delete set null default auth.uid(),
  created_at timestamptz not null default now(),
  unique (id, workspace_id)
);
create index idx_endpoints_workspace_id on events.endpoints (workspace_id, created_at, id);
create index idx_endpoints_created_by on events.endpoints (created_by);

comment on table events.endpoints is 'Where a workspace is told what happens in it.';
comment on column events.endpoints.types is 'Events to hear of: "*", a family such as "bank.*", or one such as "memory.added".';
comment on column events.endpoints.former_sealed_secret is 'Signs too for a day after another has taken its place.';
comment on column events.endpoints.failures is 'Attempts that failed since the last one that did not.';
comment on column events.endpoints.rests_until is 'An endpoint that answers nothing is asked less and less often.';

create table events.deliveries (
  id uuid primary key default gen_random_uuid(),
  endpoint_id uuid not null,
  workspace_id uuid not null,
  position bigint not null,
  type text not null,
  subject text not null,
  lane bigint not null generated always as (hashtextextended(subject, 0)) stored,
  payload jsonb not null,
  is_replay boolean not null default false,
  state text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
  attempt integer not null default 0,
  wanted_at timestamptz not null default now(),
  next_attempt_at timestamptz not null default now(),
  last_status integer,
  last_error text,
  last_answer text,
  took_ms integer,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  unique (endpoint_id, position),
  -- Together, so that nobody can read a delivery by a workspace that its endpoint is not in.
  foreign key (endpoint_id, workspace_id) references events.endpoints (id, workspace_id) on delete cascade
);
create index idx_deliveries_workspace_id on events.deliveries (workspace_id);
create index idx_deliveries_order on events.deliveries (endpoint_id, lane, is_replay, position)
  where state = 'pending';
create index idx_deliveries_finished_at on events.deliveries (finished_at) where finished_at is not null;

comment on table events.deliveries is 'Every event that an endpoint is told of: on its way, there, or given up.';
comment on column events.deliveries.id is 'The header webhook-id, the same in every attempt.';
comment on column events.deliveries.lane is
  'Deliveries in one lane go one after another. Of a fixed size, unlike the subject, which no index may hold whole.';
comment on column events.deliveries.payload is 'What is sent, as it was when it happened.';
comment on column events.deliveries.is_replay is
  'Sent again by somebody''s wish: late in any case, it holds up none of the others of its subject.';

comment on column events.deliveries.wanted_at is
  'When it was made, or somebody last wished it sent again: what is not taken within a day has failed.';

create view events.heads with (security_invoker = true) as
select distinct on (endpoint_id, lane, is_replay) endpoint_id, lane, is_replay, position, id, next_attempt_at
from events.deliveries where state = 'pending'
order by endpoint_id, lane, is_replay, position;
comment on view events.heads is 'The first delivery in each lane: the only one of it that may be attempted.';
revoke all on events.heads from public, anon, authenticated;
grant select on events.heads to service_role;

call private.protect_shared_in_workspace('events.endpoints', 'workspace_id', '{owner,admin}');
-- No secret is ever read back, and how an endpoint fares is for the service to say.
revoke all on events.endpoints from authenticated;
grant select (id, workspace_id, url, types, description, disabled_at, disabled_reason, failing_since,
              created_by, created_at),
      insert (id, workspace_id, url, types, description, sealed_secret),
      update (url, types, description, sealed_secret, disabled_at, disabled_reason),
      delete
  on events.endpoints to authenticated;

call private.protect_shared_in_workspace('events.deliveries', 'workspace_id', '{owner,admin}');
revoke insert, update, delete on events.deliveries from authenticated;
drop policy "who may insert" on events.deliveries;
drop policy "who may update" on events.deliveries;
drop policy "who may delete" on events.deliveries;

create function private.prepare_endpoint_change() returns trigger
language plpgsql set search_path = '' as $$
begin
  if new.sealed_secret is distinct from old.sealed_secret then
    new.former_sealed_secret := old.sealed_secret;
    new.former_secret_until := now() + interval '1 day';
  end if;
  -- Mended, it is believed to be well until it fails again.
  if new.url is distinct from old.url or (old.disabled_at is not null and new.disabled_at is null) then
    new.failures := 0;
    new.failing_since := null;
    new.rests_until := null;
  end if;
  return new;
end $$;
create trigger prepare_change before update on events.endpoints
  for each row execute function private.prepare_endpoint_change();

create function private.resume_endpoint() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  -- Those alone that have been tried: however many wait behind them, they are due already.
  update events.deliveries d set next_attempt_at = now()
  where d.endpoint_id = new.id and d.state = 'pending' and d.next_attempt_at > now();
  perform private.append_event(
    'webhook.changed', 'webhook/' || new.id, jsonb_build_object('endpoint', new.id, 'action', 'resumed'),
    user_id => null, workspace_id => new.workspace_id);
  return null;
end $$;
create trigger resume after update on events.endpoints
  for each row
  when (new.disabled_at is null and (new.url is distinct from old.url or old.disabled_at is not null))
  execute function private.resume_endpoint();

create function private.endpoint_to_use(endpoint uuid) returns events.endpoints
language plpgsql security definer set search_path = '' as $$
declare
  found_endpoint events.endpoints;
begin
  select * into found_endpoint from events.endpoints e
  where e.id = endpoint and e.workspace_id = any (private.my_workspaces('{owner,admin}'));
  if not found then
    raise exception 'There is no such webhook, or it is not yours to use.' using errcode = 'RC404';
  end if;
  if found_endpoint.disabled_at is not null then
    raise exception 'The webhook is disabled; enable it first.' using errcode = 'RC409';
  end if;
  return found_endpoint;
end $$;

create function private.test_webhook(endpoint uuid) returns void
language plpgsql security definer set search_path = '' as $$
declare
  tested events.endpoints := private.endpoint_to_use(endpoint);
begin
  update events.endpoints set rests_until = null where id = tested.id;
  perform private.append_event(
    'webhook.test', 'webhook/' || tested.id, jsonb_build_object('endpoint', tested.id),
    user_id => null, workspace_id => tested.workspace_id);
end $$;
comment on function private.test_webhook is 'Have one endpoint be sent an event that says nothing.';

create function private.replay_webhook(endpoint uuid, one uuid default null, since timestamptz default null)
returns integer
language plpgsql security definer set search_path = '' as $$
declare
  used events.endpoints := private.endpoint_to_use(endpoint);
  replayed integer;
begin
  -- The endpoint before its deliveries, as everywhere: who locks them the other way round may meet us.
  update events.endpoints set rests_until = null where id = used.id;
  update events.deliveries d
  set state = 'pending', next_attempt_at = now(), finished_at = null,
      -- One that still waits is only hurried; it keeps its place.
      is_replay = d.is_replay or d.state <> 'pending',
      attempt = case when d.state = 'pending' then d.attempt else 0 end,
      wanted_at = case when d.state = 'pending' then d.wanted_at else now() end
  where d.endpoint_id = used.id
    and (d.id = one or (one is null and d.state = 'failed' and d.created_at >= since));
  get diagnostics replayed = row_count;
  if replayed > 0 then
    perform private.append_event(
      'webhook.changed', 'webhook/' || used.id,
      jsonb_build_object('endpoint', used.id, 'action', 'replayed', 'deliveries', replayed),
      user_id => null, workspace_id => used.workspace_id);
  end if;
  return replayed;
end $$;
comment on function private.replay_webhook is
  'Send one delivery again, whatever became of it, or all that failed since a moment. Says how many.';

create function private.fan_out_to_webhooks(first bigint, last bigint) returns setof uuid
language sql security definer set search_path = '' as $$
  with heard as (
    -- A workspace hears what happens in it; what happens to a user alone, the user's personal one hears.
    select l.position, l.type, l.subject, coalesce(l.workspace_id, w.id) as workspace_id,
           jsonb_build_object(
             'type', l.type,
             'timestamp', to_char(l.happened_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
             'data', jsonb_build_object('position', l.position, 'subject', l.subject,
                                        'user_id', l.user_id, 'workspace_id', l.workspace_id)
                     || coalesce(l.data, '{}')
           ) as payload
    from events.log l
    left join public.workspaces w on l.workspace_id is null and w.personal_to = l.user_id
    where l.position between first and last
  ), added as (
    insert into events.deliveries (endpoint_id, workspace_id, position, type, subject, payload)
    select e.id, e.workspace_id, h.position, h.type, h.subject, h.payload
    from heard h
    join events.endpoints e on e.workspace_id = h.workspace_id and e.disabled_at is null
    where case h.type
            when 'webhook.test' then h.subject = 'webhook/' || e.id
            when 'webhook.changed' then false
            else e.types && array['*', h.type, split_part(h.type, '.', 1) || '.*']
          end
    order by h.position
    on conflict (endpoint_id, position) do nothing
    returning endpoint_id
  )
  select a.endpoint_id from added a
  union
  select e.id from heard h
  join events.endpoints e on e.workspace_id = h.workspace_id and h.subject = 'webhook/' || e.id
  where h.type = 'webhook.changed' and e.disabled_at is null
$$;
comment on function private.fan_out_to_webhooks is
  'Make deliveries of the events from one position to another; returns the endpoints that have something to do.';

revoke execute on function private.prepare_endpoint_change, private.resume_endpoint, private.endpoint_to_use,
  private.test_webhook, private.replay_webhook, private.fan_out_to_webhooks from public;
grant execute on function private.test_webhook, private.replay_webhook to authenticated;
grant execute on function private.fan_out_to_webhooks to service_role;
