-- E-mail: messages to users, kept for the dashboard and sent as digests, and what each user has muted.

create schema mail;
revoke all on schema mail from public;
grant usage on schema mail to authenticated, service_role;

create table mail.messages (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  kind text not null check (kind ~ '^[a-z][a-z_]*(\.[a-z][a-z_]*)*$' and char_length(kind) <= 100),
  subject text not null check (char_length(subject) between 1 and 200),
  body text not null check (char_length(body) <= 10000),
  link text check (char_length(link) <= 2000),
  state text not null default 'waiting' check (state in ('waiting', 'sent', 'failed', 'held', 'muted')),
  letter uuid,
  claimed_at timestamptz,
  postponed integer not null default 0,
  not_before timestamptz,
  error text check (char_length(error) <= 500),
  -- Not now(): messages of one transaction keep their order.
  created_at timestamptz not null default clock_timestamp(),
  sent_at timestamptz,
  read_at timestamptz
);
create index idx_messages_user_id on mail.messages (user_id, created_at desc, id desc);
create index idx_messages_created_at on mail.messages (created_at);
create index idx_messages_outgoing on mail.messages (user_id, created_at) where state in ('waiting', 'held');
create index idx_messages_letter on mail.messages (letter) where state = 'waiting';
call private.protect_owned_by_user('mail.messages');

-- What is written to a user is the service's; the user reads it, says so, and throws it away.
revoke insert, update on mail.messages from authenticated;
grant update (read_at) on mail.messages to authenticated;
drop policy "who may insert" on mail.messages;

comment on column mail.messages.state is
  'held: no way to send it, for want of SMTP settings or of a confirmed address. muted: its reader wants none by e-mail.';
comment on column mail.messages.letter is
  'The e-mail that a sender has put this message in. It stays where nobody knows whether it arrived, so that the next attempt is the same e-mail.';
comment on column mail.messages.claimed_at is 'Since when a sender has the letter in hand; a sender that died loses it after a while.';

comment on column mail.messages.postponed is 'How often the mail server has said: not now.';
comment on column mail.messages.not_before is
  'When to try again. Until then its user is sent nothing: more would fare the same, and can go along with it.';

create table mail.preferences (
  user_id uuid not null references auth.users (id) on delete cascade,
  kind text not null
    check (kind = '*' or (kind ~ '^[a-z][a-z_]*(\.[a-z][a-z_]*)*$' and char_length(kind) <= 100)),
  muted_at timestamptz not null default now(),
  primary key (user_id, kind)
);
call private.protect_owned_by_user('mail.preferences');
comment on table mail.preferences is 'Kinds of messages that a user wants no e-mail about; "*" means all.';

create function private.send_mail(
  recipient uuid, message_kind text, message_subject text, message_body text,
  message_link text default null, hold boolean default false
) returns uuid
language plpgsql security definer set search_path = '' as $$
declare
  made uuid;
begin
  -- Work with a user's rights may tell that user something, and nobody else.
  if not private.is_service() and recipient is distinct from auth.uid() then
    raise exception 'A message may be left for yourself alone.' using errcode = 'RC403';
  end if;
  insert into mail.messages (user_id, kind, subject, body, link, state)
  values (recipient, message_kind, message_subject, message_body, message_link, case
    when exists (
      select from mail.preferences p where p.user_id = recipient and p.kind in (message_kind, '*')
    ) then 'muted'
    when hold then 'held'
    else 'waiting'
  end)
  returning id into made;
  return made;
end $$;
comment on function private.send_mail is
  'Leave a message for a user, in the current transaction; a digest takes it along.';

create function private.mail_address(known uuid) returns text
language sql stable security definer set search_path = '' as $$
  -- An address that nobody has confirmed may be somebody else's.
  select u.email::text from auth.users u
  where u.id = known and u.email_confirmed_at is not null and u.email <> ''
    and u.deleted_at is null and (u.banned_until is null or u.banned_until < now())
$$;
comment on function private.mail_address is 'Where a user can be written to, if anywhere.';

create view mail.outgoing with (security_invoker = true) as
  select m.id, m.user_id, m.state, m.letter, m.claimed_at, m.created_at, private.mail_address(m.user_id) as address
  from mail.messages m
  where m.state in ('waiting', 'held')
    and private.mail_address(m.user_id) is not null
    and not exists (
      select from mail.preferences p where p.user_id = m.user_id and p.kind in (m.kind, '*')
    )
    and not exists (
      select from mail.messages p
      where p.user_id = m.user_id and p.state in ('waiting', 'held') and p.not_before > now()
    );
revoke all on mail.outgoing from public, anon, authenticated;
grant select on mail.outgoing to service_role;
comment on view mail.outgoing is 'Messages that may be sent by e-mail now, and to whom.';

revoke execute on function private.send_mail, private.mail_address from public;
grant execute on function private.send_mail to authenticated, service_role;
grant execute on function private.mail_address to service_role;
