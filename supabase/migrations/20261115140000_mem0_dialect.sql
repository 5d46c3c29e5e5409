-- What clients of mem0 ask for beyond memories: requests that are answered before they are done, exports, and the
-- settings of a project, which is a workspace here.

create table public.mem0_requests (
  id uuid primary key default private.new_id(),
  user_id uuid not null default auth.uid() references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  job uuid unique references jobs.runs (id) on delete cascade,
  kind text not null check (kind in ('ADD', 'DELETE', 'EXPORT')),
  wanted jsonb,
  results jsonb not null default '[]' check (jsonb_typeof(results) = 'array'),
  not_understood integer not null default 0,
  created_at timestamptz not null default now(),
  completed_at timestamptz
);
create index idx_mem0_requests_user_id on public.mem0_requests (user_id, created_at desc);
create index idx_mem0_requests_workspace_id on public.mem0_requests (workspace_id);
create index idx_mem0_requests_created_at on public.mem0_requests (created_at);
call private.protect_owned_by_user('public.mem0_requests');
-- Whose it is, where and by which job does not change.
revoke update on public.mem0_requests from authenticated;
grant update (wanted, results, not_understood, completed_at) on public.mem0_requests to authenticated;

comment on table public.mem0_requests is
  'What was asked for in mem0''s way, and what came of it. One that a job does goes when its job does.';
comment on column public.mem0_requests.wanted is
  'What a job is to add, until it has; what an export is to hold. No copy of anything that is remembered.';
comment on column public.mem0_requests.results is
  'Which memories were touched and how, without their text: what is forgotten there is not kept here.';

create table public.mem0_projects (
  workspace_id uuid primary key references public.workspaces (id) on delete cascade,
  custom_instructions text check (char_length(custom_instructions) <= 20000),
  agent_custom_instructions text check (char_length(agent_custom_instructions) <= 20000),
  custom_categories jsonb not null default '[]' check (jsonb_typeof(custom_categories) = 'array'),
  updated_at timestamptz not null default now()
);
call private.protect_shared_in_workspace('public.mem0_projects', 'workspace_id', '{owner,admin}');
comment on table public.mem0_projects is 'What a workspace wants of memories that are added to it in mem0''s way.';

-- Its clients may say later when something was said.
grant update (occurred_at) on public.memories to authenticated;
