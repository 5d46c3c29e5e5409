-- Events: what happened, written in the transaction in which it happened, and told afterwards to whoever
-- may hear it.

create schema events;
revoke all on schema events from public;
grant usage on schema events to authenticated, service_role;

create table events.log (
  id bigint generated always as identity primary key,
  position bigint unique,
  type text not null check (type ~ '^[a-z_]+(\.[a-z_]+)+$'),
  subject text not null check (char_length(subject) between 1 and 1024),
  user_id uuid references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  company_id uuid references public.companies (id) on delete cascade,
  actor uuid,
  data jsonb not null default '{}' check (jsonb_typeof(data) = 'object'),
  happened_at timestamptz not null default clock_timestamp()
);
create index idx_log_unrelayed on events.log (id) where position is null;
create index idx_log_user_id on events.log (user_id, position);
create index idx_log_workspace_id on events.log (workspace_id, position) where workspace_id is not null;
create index idx_log_company_id on events.log (company_id, position) where company_id is not null;
create index idx_log_happened_at on events.log (happened_at);


comment on table events.log is 'What happened. Thin: what changed and where, never the contents.';
comment on column events.log.position is
  'Its place in the order in which events are told, given after the commit: whoever has read up to one '
  'position will never find a new event before it.';
comment on column events.log.subject is 'What changed. Events of one subject are told in their order.';
comment on column events.log.actor is 'Who did it, if that was not the user: the admin who acted for them.';

create table events.cursors (
  name text primary key,
  position bigint not null default 0,
  updated_at timestamptz not null default now()
);
call private.close_to_all_but_service('events.cursors');
insert into events.cursors (name) values ('relay');
comment on table events.cursors is
  'How far each reader is. The relay''s is the last position given: a row and not a sequence, so that it is seen '
  'when, and only when, its events are.';

call private.close_to_all_but_service('events.log');
grant select on events.log to authenticated;
create policy "those concerned hear of it" on events.log for select to authenticated
  using (user_id = (select auth.uid())
         or workspace_id = any ((select private.my_workspaces())::uuid[])
         or company_id = any ((select private.my_companies())::uuid[]));

create function private.append_event(
  type text, subject text, data jsonb default '{}', user_id uuid default null,
  workspace_id uuid default null, company_id uuid default null
) returns void
language plpgsql security definer set search_path = '' as $$
begin
  insert into events.log (type, subject, user_id, workspace_id, company_id, actor, data)
  select append_event.type, append_event.subject, append_event.user_id, append_event.workspace_id,
         append_event.company_id, coalesce((auth.jwt() ->> 'act')::uuid, auth.uid()), append_event.data
  -- Where somebody is being deleted, with all that is theirs, nobody is left to be told.
  where (append_event.user_id is null or exists (select from auth.users u where u.id = append_event.user_id))
    and (append_event.workspace_id is null
         or exists (select from public.workspaces w where w.id = append_event.workspace_id));
  -- One notice per transaction, however many events: Postgres drops repetitions.
  perform pg_notify('recollect_outbox', '');
end $$;
comment on function private.append_event is
  'Append to the outbox, in this transaction. For triggers, and functions that know what happened.';

create function private.publish_event(
  type text, subject text, data jsonb default '{}', user_id uuid default null,
  workspace_id uuid default null, company_id uuid default null
) returns void
language plpgsql security definer set search_path = '' as $$
begin
  if not private.is_service() and (
    num_nonnulls(publish_event.user_id, publish_event.workspace_id, publish_event.company_id) = 0
    or publish_event.user_id <> auth.uid()
    or (publish_event.workspace_id is not null
        and publish_event.workspace_id <> all (private.my_workspaces('{owner,admin,reviewer,member}')))
    or (publish_event.company_id is not null and publish_event.company_id <> all (private.my_companies()))
    -- Others act on these, since nobody but the server says them.
    or split_part(publish_event.type, '.', 1) in ('access', 'bank', 'job', 'user', 'webhook')
  ) then
    raise exception 'An event is published about oneself, or where one is a member, and not in the server''s name.'
      using errcode = 'RC403';
  end if;
  perform private.append_event(publish_event.type, publish_event.subject, publish_event.data,
                               publish_event.user_id, publish_event.workspace_id, publish_event.company_id);
end $$;
comment on function private.publish_event is 'Append to the outbox in somebody''s name, if they may.';

create function private.relay_events(batch integer, subscriptions jsonb) returns integer
language plpgsql security definer set search_path = '' as $$
declare
  before bigint;
  relayed integer;
  told events.log;
  subscriber text;
begin
  -- One at a time: positions are given, and become visible, in their order.
  select c.position into before from events.cursors c where c.name = 'relay' for update skip locked;
  if not found then
    return 0;
  end if;
  with waiting as (
    select l.id, row_number() over (order by l.id) as place from (
      select w.id from events.log w where w.position is null order by w.id limit batch for update
    ) l
  )
  update events.log l set position = before + waiting.place from waiting where l.id = waiting.id;
  get diagnostics relayed = row_count;
  if relayed = 0 then
    return 0;
  end if;
  update events.cursors set position = before + relayed, updated_at = now() where name = 'relay';

  for told in
    select * from events.log l where l.position > before and subscriptions ? l.type order by l.position
  loop
    for subscriber in select jsonb_array_elements_text(subscriptions -> told.type) loop
      perform private.enqueue_job(
        subscriber, jsonb_build_object('event', to_jsonb(told)), for_user => told.user_id,
        for_workspace => told.workspace_id, in_order_of => concat_ws(' ', subscriber, told.subject),
        origin => 'event');
    end loop;
  end loop;
  perform private.enqueue_job(
    'webhooks.deliver', jsonb_build_object('endpoint', e.id), key => e.id::text,
    for_workspace => e.workspace_id, origin => 'event')
  from private.fan_out_to_webhooks(before + 1, before + relayed) as endpoint
  join events.endpoints e on e.id = endpoint;
  perform pg_notify('recollect_events', (before + relayed)::text);
  return relayed;
end $$;
comment on function private.relay_events is
  'Give committed events their positions, and queue what subscribers and webhooks have to do about them.';

create function private.hearers(after bigint, upto bigint, listeners uuid[])
returns table (heard bigint, listener uuid)
language sql stable security definer set search_path = '' as $$
  select e.position, e.user_id from events.log e
  where e.position > after and e.position <= upto and e.user_id = any (listeners)
  union
  select e.position, m.user_id from events.log e
  join public.workspace_members m on m.workspace_id = e.workspace_id
  where e.position > after and e.position <= upto and m.user_id = any (listeners)
  union
  select e.position, m.user_id from events.log e
  join public.company_members m on m.company_id = e.company_id and m.status = 'active'
  where e.position > after and e.position <= upto and m.user_id = any (listeners)
$$;
comment on function private.hearers is
  'Who of these users may hear which events, as row security would say it for each of them.';

create function private.known_events() returns table (newest bigint, oldest bigint)
language sql stable security definer set search_path = '' as $$
  select c.position, coalesce((select min(l.position) from events.log l), c.position + 1)
  from events.cursors c where c.name = 'relay'
$$;
comment on function private.known_events is
  'Up to where events have been told, and from where on they are still known.';

revoke execute on function private.append_event, private.publish_event, private.relay_events, private.hearers, private.known_events
  from public;
grant execute on function private.publish_event, private.known_events to authenticated, service_role;
grant execute on function private.relay_events, private.hearers to service_role;

create function private.tell_bank_changed() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  entry public.user_memory := coalesce(new, old);
begin
  perform private.append_event(
    'bank.changed', concat_ws('/', 'bank', entry.user_id, entry.namespace, entry.key),
    jsonb_build_object('namespace', entry.namespace, 'key', entry.key,
                       'action', case tg_op when 'INSERT' then 'created' when 'UPDATE' then 'updated' else 'deleted' end),
    user_id => entry.user_id);
  return null;
end $$;
create trigger tell_written after insert on public.user_memory
  for each row execute function private.tell_bank_changed();
-- A value that is only sealed anew, or locked, has not changed.
create trigger tell_changed after update on public.user_memory
  for each row when (old.updated_at is distinct from new.updated_at)
  execute function private.tell_bank_changed();
create trigger tell_deleted after delete on public.user_memory
  for each row execute function private.tell_bank_changed();

create function private.tell_user_updated() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  changed text[] := array(
    select n.key from jsonb_each(to_jsonb(new)) n
    where n.value is distinct from to_jsonb(old) -> n.key and n.key <> 'updated_at' order by 1
  );
begin
  if changed <> '{}' then
    perform private.append_event(
      'user.updated', 'user/' || new.id,
      jsonb_build_object('userId', new.id, 'changed', changed)
      || case when 'is_premium' = any (changed) then jsonb_build_object('isPremium', new.is_premium) else '{}' end,
      user_id => new.id);
  end if;
  return null;
end $$;
create trigger tell_updated after update on public.profiles
  for each row execute function private.tell_user_updated();

-- Whoever listens must be asked again who they are when a way to prove it is gone.
create function private.tell_access_changed() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.append_event(
    'access.changed', 'user/' || old.user_id, jsonb_build_object('what', tg_argv[0]), user_id => old.user_id);
  return null;
end $$;
create trigger tell_ended after delete on private.sessions
  for each row execute function private.tell_access_changed('session_ended');
create trigger tell_revoked after update on private.api_keys
  for each row when (old.revoked_at is null and new.revoked_at is not null)
  execute function private.tell_access_changed('key_revoked');

revoke execute on function private.tell_bank_changed, private.tell_user_updated, private.tell_access_changed
  from public;
