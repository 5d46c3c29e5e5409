-- Every question that was put to a model: who asked, what for, what it took, how it ended. Never what was said.

create table public.model_calls (
  id uuid primary key default gen_random_uuid(),
  user_id uuid references auth.users (id) on delete set null,
  workspace_id uuid references public.workspaces (id) on delete set null,
  acted_by uuid references auth.users (id) on delete set null,
  purpose text not null check (purpose ~ '^[a-z][a-z_]*(\.[a-z][a-z_]*)*$' and char_length(purpose) <= 100),
  provider text not null check (char_length(provider) between 1 and 255),
  model text not null check (char_length(model) between 1 and 200),
  outcome text not null default 'running' check (outcome in (
    'running', 'ok', 'invalid', 'truncated', 'refused', 'failed', 'timed_out', 'over_budget', 'cancelled', 'lost'
  )),
  attempts integer not null default 0,
  budget_tokens bigint not null default 0 check (budget_tokens >= 0),
  input_tokens bigint,
  output_tokens bigint,
  cost_usd numeric,
  error text check (char_length(error) <= 300),
  started_at timestamptz not null default clock_timestamp(),
  took_ms integer
);
create index idx_model_calls_user_id on public.model_calls (user_id, started_at desc, id desc);
create index idx_model_calls_workspace_id on public.model_calls (workspace_id, started_at desc, id desc);
create index idx_model_calls_started_at on public.model_calls (started_at desc, id desc);
create index idx_model_calls_acted_by on public.model_calls (acted_by) where acted_by is not null;
create index idx_model_calls_running on public.model_calls (started_at) where outcome = 'running';

comment on table public.model_calls is 'Every question that was put to a model, those that failed included.';
comment on column public.model_calls.user_id is 'Who asked; none: the service, or somebody who is gone.';
comment on column public.model_calls.acted_by is 'The admin who acted for the user, if one did.';
comment on column public.model_calls.purpose is 'What for, such as memory.extract.';
comment on column public.model_calls.provider is 'Where the model runs.';
comment on column public.model_calls.outcome is
  'running: written before the question is sent. lost: the server ended before the answer came.';
comment on column public.model_calls.attempts is 'How often it was sent: anew after failures of the moment, and to mend an answer.';
comment on column public.model_calls.budget_tokens is
  'What it counts for in the day''s budget: the most that it can take while it runs, then what it took.';
comment on column public.model_calls.input_tokens is 'As the model''s server reports; none if it did not.';
comment on column public.model_calls.cost_usd is 'None where the price is not known.';
comment on column public.model_calls.error is 'A short reason in our words: never the answer of the model''s server.';

call private.close_to_all_but_service('public.model_calls');
-- What colleagues do with a model, and what it costs, is for those who manage the workspace.
grant select on public.model_calls to authenticated;
create policy "who asked and who manages the workspace see calls" on public.model_calls for select to authenticated
  using (user_id = (select auth.uid())
         or workspace_id = any ((select private.my_workspaces('{owner,admin}'))::uuid[]));

create function private.model_tokens_today(of_user uuid, of_workspace uuid, besides uuid default null)
returns bigint
language sql stable set search_path = '' as $$
  -- A call counts for its user and for its workspace, so that many workspaces are no way around the budget.
  select coalesce(greatest(
    (select sum(c.budget_tokens) from public.model_calls c
     where c.user_id = of_user and c.started_at >= date_trunc('day', now(), 'UTC')
       and c.id is distinct from besides),
    (select sum(c.budget_tokens) from public.model_calls c
     where c.workspace_id = of_workspace and c.started_at >= date_trunc('day', now(), 'UTC')
       and c.id is distinct from besides),
    (select sum(c.budget_tokens) from public.model_calls c
     where of_user is null and of_workspace is null and c.user_id is null and c.workspace_id is null
       and c.started_at >= date_trunc('day', now(), 'UTC') and c.id is distinct from besides)
  ), 0)::bigint
$$;
comment on function private.model_tokens_today is
  'Tokens taken since midnight UTC, of the user or of the workspace, whichever took more.';
revoke execute on function private.model_tokens_today from public;
grant execute on function private.model_tokens_today to service_role;
