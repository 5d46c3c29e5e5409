-- Webhooks in: what others have told us, so that hearing it twice changes nothing, and what it leads to.

create table events.received (
  source text not null check (char_length(source) between 1 and 50),
  id text not null check (char_length(id) between 1 and 300),
  fingerprint bytea,
  received_at timestamptz not null default now(),
  primary key (source, id)
);
create index idx_received_received_at on events.received (received_at);
call private.close_to_all_but_service('events.received');

comment on table events.received is 'What came by webhook, recorded in the same transaction as its effect.';
comment on column events.received.id is
  'The sender''s own id of the delivery; or, where it has none, what it is about.';
comment on column events.received.fingerprint is
  'Of what was said last, where the id is what it is about.';

create function private.make_premium(known uuid) returns text
language plpgsql security definer set search_path = '' as $$
begin
  if not exists (select from auth.users u where u.id = known and u.deleted_at is null) then
    return 'unknown_user';
  end if;
  -- Somebody who signed up with Supabase and pays before they ever came here has no profile yet.
  perform private.welcome_user(known);
  update public.profiles set is_premium = true, updated_at = now() where id = known;
  if not found then
    return 'no_profile';
  end if;
  return 'done';
end $$;
comment on function private.make_premium is
  'Mark a user premium; the trigger on profiles tells everybody. "done", "unknown_user" or "no_profile".';
revoke execute on function private.make_premium from public;
grant execute on function private.make_premium to service_role;
