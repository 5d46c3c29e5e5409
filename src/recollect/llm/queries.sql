-- whose_call
-- Whether the caller is in the workspace for which they ask.
select %(workspace_id)s::uuid is null
       or coalesce(%(workspace_id)s::uuid = any (private.my_workspaces()), false) as is_member

-- lock_budgets
-- One call at a time is weighed against a budget: two at once would both find the last tokens.
select pg_advisory_xact_lock(hashtextextended('recollect: model budget ' || tenant, 0))
from unnest(%(tenants)s::text[]) as tenant

-- open_call
-- Write a call down before it is made, and set its tokens aside if the budget has them.
with today as (
  select %(daily_tokens)s::bigint is null
         or private.model_tokens_today(%(user_id)s::uuid, %(workspace_id)s::uuid) + %(tokens)s::bigint
            <= %(daily_tokens)s::bigint as fits
)
insert into public.model_calls (
  user_id, workspace_id, acted_by, purpose, part_of, provider, model, outcome, budget_tokens, error, took_ms
)
select %(user_id)s::uuid, %(workspace_id)s::uuid, %(acted_by)s::uuid, %(purpose)s, %(part_of)s::uuid, %(provider)s, %(model)s,
       case when fits then 'running' else 'over_budget' end, case when fits then %(tokens)s::bigint else 0 end,
       case when fits then null else %(error)s end, case when fits then null else 0 end
from today
returning id, outcome

-- extend_call
-- Set more tokens aside for a call that is under way, if the budget has them.
update public.model_calls set budget_tokens = %(tokens)s::bigint
where id = %(id)s and (
  %(daily_tokens)s::bigint is null
  or private.model_tokens_today(%(user_id)s::uuid, %(workspace_id)s::uuid, besides => %(id)s) + %(tokens)s::bigint
     <= %(daily_tokens)s::bigint
)

-- close_call
-- Write down how a call ended and what it took.
update public.model_calls
set outcome = %(outcome)s, attempts = %(attempts)s, budget_tokens = %(tokens)s, input_tokens = %(input_tokens)s,
    output_tokens = %(output_tokens)s, cost_usd = %(cost_usd)s, error = %(error)s, took_ms = %(took_ms)s
where id = %(id)s

-- list_calls
-- One page of the calls that the caller may see, the newest first.
with filtered as not materialized (
  select id, user_id, workspace_id, acted_by, purpose, provider, model, outcome, attempts, input_tokens,
         output_tokens, cost_usd::float8 as cost_usd, error, started_at, took_ms
  from public.model_calls
  where (%(outcome)s::text is null or outcome = %(outcome)s) and (%(purpose)s::text is null or purpose = %(purpose)s)
    and (%(before)s::timestamptz is null or (started_at, id) < (%(before)s, %(before_id)s::uuid))
), own as (
  select * from filtered where user_id = (select auth.uid()) order by started_at desc, id desc limit %(limit)s
), managed as (
  select * from filtered
  where workspace_id = any ((select private.my_workspaces('{owner,admin}'))::uuid[])
    and user_id is distinct from (select auth.uid())
  order by started_at desc, id desc limit %(limit)s
)
select * from own union all select * from managed order by started_at desc, id desc limit %(limit)s

-- list_all_calls
-- One page of everybody's calls, the newest first.
select id, user_id, workspace_id, acted_by, purpose, provider, model, outcome, attempts, input_tokens,
       output_tokens, cost_usd::float8 as cost_usd, error, started_at, took_ms
from public.model_calls
where (%(outcome)s::text is null or outcome = %(outcome)s) and (%(purpose)s::text is null or purpose = %(purpose)s)
  and (%(before)s::timestamptz is null or (started_at, id) < (%(before)s, %(before_id)s::uuid))
order by started_at desc, id desc limit %(limit)s

-- use_today
-- What the caller has used since midnight UTC.
select count(*)::int as calls, count(*) filter (where outcome not in ('ok', 'running'))::int as failed,
       coalesce(sum(input_tokens), 0)::bigint as input_tokens, coalesce(sum(output_tokens), 0)::bigint as output_tokens,
       coalesce(sum(cost_usd), 0)::float8 as cost_usd, coalesce(sum(budget_tokens), 0)::bigint as budget_tokens
from public.model_calls
where user_id = (select auth.uid()) and started_at >= date_trunc('day', now(), 'UTC')

-- use_today_of_all
-- What everybody has used since midnight UTC.
select count(*)::int as calls, count(*) filter (where outcome not in ('ok', 'running'))::int as failed,
       coalesce(sum(input_tokens), 0)::bigint as input_tokens, coalesce(sum(output_tokens), 0)::bigint as output_tokens,
       coalesce(sum(cost_usd), 0)::float8 as cost_usd, coalesce(sum(budget_tokens), 0)::bigint as budget_tokens
from public.model_calls
where started_at >= date_trunc('day', now(), 'UTC')

-- mark_lost
-- Say of calls that cannot be under way any more that nobody knows how they ended.
update public.model_calls
set outcome = 'lost', error = 'The server ended before the model answered.'
where outcome = 'running' and started_at < now() - %(age)s::interval

-- purge_calls
-- Forget old calls, a batch at a time.
delete from public.model_calls where id in (
  select id from public.model_calls where started_at < now() - %(age)s::interval and outcome <> 'running'
  limit %(batch)s for update skip locked
)
