-- The bank: small namespaced JSON values per user.

create table public.user_memory (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  namespace text not null default 'default' check (char_length(namespace) between 1 and 256),
  key text not null check (char_length(key) between 1 and 256),
  value text check (octet_length(value) <= 16384),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (user_id, namespace, key)
);
create index idx_user_memory_user_id on public.user_memory (user_id);
create index idx_user_memory_namespace_updated_at on public.user_memory (namespace, updated_at);
call private.protect_owned_by_user('public.user_memory');

comment on table public.user_memory is 'Short-lived, user-scoped context: preferences, recent suggestions, opt-outs.';
comment on column public.user_memory.value is
  'The serialised JSON as it was sent, at most 10 KB; sealed by the server (never valid JSON) where the namespace is encrypted.';
