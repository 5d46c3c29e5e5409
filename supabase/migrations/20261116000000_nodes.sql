-- The memory nodes of workflows: what each node is, and what the ones of keys and values keep.

create table public.memory_nodes (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  memory_node_id varchar(255) not null check (memory_node_id <> ''),
  memory_type text not null check (memory_type ~ '^[A-Z][A-Z_]{0,49}$'),
  config jsonb not null default '{}' check (jsonb_typeof(config) = 'object'),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (user_id, memory_node_id)
);
call private.protect_owned_by_user('public.memory_nodes');

comment on table public.memory_nodes is 'The memory nodes of a user''s workflows: of which type each is, and how it is set up.';
comment on column public.memory_nodes.memory_node_id is 'The workflow''s own name for the node.';

create table public.memory_data (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  memory_node_id varchar(255) not null,
  key varchar(255) not null check (key <> ''),
  value json not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  expires_at timestamptz,
  unique (user_id, memory_node_id, key),
  foreign key (user_id, memory_node_id) references public.memory_nodes (user_id, memory_node_id) on delete cascade
);
create index idx_memory_data_expires_at on public.memory_data (expires_at) where expires_at is not null;
call private.protect_owned_by_user('public.memory_data');

comment on table public.memory_data is 'Values under keys, of the nodes KEY_VALUE_STORE and WORKING_MEMORY.';
comment on column public.memory_data.value is 'Not jsonb: what was sent comes back as it was, and no larger.';
comment on column public.memory_data.expires_at is 'From then on nobody is shown it; it is purged within the hour.';
