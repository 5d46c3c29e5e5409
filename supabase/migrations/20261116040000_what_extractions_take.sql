-- An extraction counts its own model calls, and what they cost; a rule that is said again may contradict more than
-- before; rules are held in one order; what is forgotten meanwhile is quoted nowhere; paths stay their owner's.

alter table public.model_calls add column part_of uuid;
comment on column public.model_calls.part_of is 'The piece of work that it was asked for, if that keeps account: an extraction.';
create index idx_model_calls_part_of on public.model_calls (part_of) where part_of is not null;

alter table public.extraction_runs add column cost_usd numeric(12, 6);
comment on column public.extraction_runs.cost_usd is 'What its model calls cost; none where the price is not known.';

create function private.spent_in(run public.extraction_runs, out input bigint, out output bigint, out cost numeric)
language sql stable set search_path = '' as $$
  select coalesce(sum(c.input_tokens), 0), coalesce(sum(c.output_tokens), 0), sum(c.cost_usd)
  from public.model_calls c where c.part_of = run.id
$$;
comment on function private.spent_in is 'What the model calls of an extraction took, failed ones included.';

create or replace function private.begin_extraction(of_user uuid, of_workspace uuid, of_origin text, lease interval) returns uuid
language plpgsql security definer set search_path = '' as $$
declare
  begun uuid;
begin
  perform private.hold_to_tenant(of_user);
  if of_workspace is not null then
    perform private.hold_to_tenant(of_workspace, '{owner,admin,reviewer,member}');
  end if;
  if not private.may_analyse(of_user, of_workspace) then
    raise exception 'Nobody''s chats are read for rules before they have agreed to it.' using errcode = 'RC403';
  end if;
  update public.extraction_runs r
  set state = 'failed', ended_at = clock_timestamp(), error = 'The worker ended before the extraction did.',
      (input_tokens, output_tokens, cost_usd) = (select spent.input, spent.output, spent.cost from private.spent_in(r) spent)
  where r.user_id = of_user and r.workspace_id is not distinct from of_workspace and r.state = 'running'
    and r.seen_at < clock_timestamp() - lease;
  insert into public.extraction_runs (user_id, workspace_id, origin) values (of_user, of_workspace, of_origin)
  on conflict do nothing returning id into begun;
  return begun;
end $$;

create or replace function private.end_extraction(which uuid, becomes text, counted jsonb, because text) returns void
language plpgsql security definer set search_path = '' as $$
declare
  ended public.extraction_runs;
begin
  update public.extraction_runs r
  set state = becomes, ended_at = clock_timestamp(), error = left(because, 1000),
      made_by = counted ->> 'made_by', prompt_id = (counted ->> 'prompt_id')::uuid,
      prompt_version = (counted ->> 'prompt_version')::integer,
      chats = coalesce((counted ->> 'chats')::integer, 0), turns = coalesce((counted ->> 'turns')::integer, 0),
      candidates = coalesce((counted ->> 'candidates')::integer, 0), proposed = coalesce((counted ->> 'proposed')::integer, 0),
      repeated = coalesce((counted ->> 'repeated')::integer, 0), refused = coalesce((counted ->> 'refused')::integer, 0),
      tokens_whole = coalesce((counted ->> 'tokens_whole')::bigint, 0),
      tokens_sent = coalesce((counted ->> 'tokens_sent')::bigint, 0),
      (input_tokens, output_tokens, cost_usd) = (select spent.input, spent.output, spent.cost from private.spent_in(r) spent)
  where r.id = which and r.state = 'running' and (private.is_service() or r.user_id = auth.uid())
  returning r.* into ended;
  if ended.id is null then
    raise exception 'Another worker has taken this extraction over.' using errcode = 'RC410';
  end if;
end $$;

drop function private.tokens_spent;

-- What holds --------------------------------------------------------------------------------------------------

create or replace function public.get_approved_rules(
  p_workspace_id uuid default null, p_project_id uuid default null, p_category text default null
) returns table (id uuid, rule_text text, rule_category text, confidence_score double precision, project_id uuid, scope jsonb)
language sql security definer set search_path = '' as $$
  -- To be handed out is to be used.
  -- Held in one order, lest two that are handed the same wait for each other.
  with held as materialized (
    select r.id from public.extracted_rules r join public.rule_approvals a on a.rule_id = r.id
    where a.status = 'approved'
      and case when p_workspace_id is null then r.owner_id = auth.uid()
          else r.workspace_id = p_workspace_id
               and (private.is_service() or p_workspace_id = any (private.my_workspaces())) end
      and (p_project_id is null or r.project_id is null or r.project_id = p_project_id)
      and (p_category is null or r.rule_category = p_category)
    order by r.id for no key update of r
  ), served as (
    update public.extracted_rules r set usage_count = r.usage_count + 1, last_used_at = clock_timestamp()
    from held h where r.id = h.id
    returning r.id, r.rule_text, r.rule_category, r.confidence_score, r.project_id, r.scope
  )
  select * from served s order by s.rule_category, s.confidence_score desc, s.id
$$;

create or replace function private.decide_rule(which uuid, becomes text, who uuid, because text) returns void
language plpgsql security definer set search_path = '' as $$
declare
  held public.rule_approvals := private.hold_rule(which);
begin
  if who is distinct from auth.uid() and not private.is_service() then
    raise exception 'A rule is decided in one''s own name.' using errcode = 'RC403';
  end if;
  if held.status = becomes and because is null then
    return;
  end if;
  update public.rule_approvals a
  set status = becomes, reviewed_by = who, reviewed_at = clock_timestamp(), updated_at = clock_timestamp(),
      current_approvals = case becomes when 'approved' then a.required_approvals else 0 end,
      rejection_reason = case becomes when 'rejected' then because end,
      revision_notes = case becomes when 'needs_revision' then because else a.revision_notes end
  where a.id = held.id;
  insert into public.rule_approval_history (rule_id, previous_status, new_status, changed_by, change_reason)
  values (which, held.status, becomes, who, because);
  if becomes in ('approved', 'rejected') and held.status <> becomes then
    perform private.append_event('rule.' || becomes, 'rule/' || r.id, jsonb_build_object('ruleId', r.id), r.owner_id, r.workspace_id)
    from public.extracted_rules r where r.id = which;
  end if;
end $$;

-- What was found ----------------------------------------------------------------------------------------------

create function private.hold_chat(which uuid) returns boolean
language plpgsql security definer set search_path = '' as $$
begin
  perform from public.chat_histories c where c.id = which and (private.is_service() or c.user_id = auth.uid()) for key share;
  return found;
end $$;
comment on function private.hold_chat is 'Whether a chat of the caller''s is there; until the transaction ends it is not forgotten.';

create function private.rules_named(run public.extraction_runs, ids jsonb) returns uuid[]
language sql stable set search_path = '' as $$
  select coalesce(array_agg(o.id), '{}') from jsonb_array_elements_text(coalesce(ids, '[]')) c (named)
  join public.extracted_rules o on o.id = c.named::uuid
    and (o.workspace_id = run.workspace_id or (run.workspace_id is null and o.owner_id = run.user_id))
$$;
comment on function private.rules_named is 'Of these rules, those of the tenant whose chats are read.';

drop function private.note_rules;
create function private.note_rules(in_run uuid, rules jsonb, read_turns uuid[]) returns table (nth bigint, id uuid, is_new boolean, is_raised boolean)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  run public.extraction_runs;
begin
  select r.* into run from public.extraction_runs r
  where r.id = in_run and r.state = 'running' and (private.is_service() or r.user_id = auth.uid());
  if not found then
    raise exception 'Another worker has taken this extraction over.' using errcode = 'RC410';
  end if;
  if run.workspace_id is not null then
    -- Whoever began may have left since.
    perform private.hold_to_tenant(run.workspace_id, '{owner,admin,reviewer,member}');
  end if;
  if not private.may_analyse(run.user_id, run.workspace_id) then
    raise exception 'Nobody''s chats are read for rules before they have agreed to it.' using errcode = 'RC403';
  end if;
  -- In one order, as those do who are handed them.
  perform from public.extracted_rules r
  where r.id in (select (g.rule ->> 'id')::uuid from jsonb_array_elements(rules) g (rule))
  order by r.id for no key update;
  -- What is forgotten meanwhile is either not there to be quoted, or forgotten in the quotes too.
  perform from public.chat_histories c
  where c.id in (select (e.said ->> 'chat_id')::uuid from jsonb_array_elements(rules) g (rule), jsonb_array_elements(g.rule -> 'evidence') e (said))
  order by c.id for key share;
  -- Nothing is quoted that its author did not write, nor from chats that are not of this tenant.
  if exists (
    select from jsonb_array_elements(rules) g (rule)
    left join lateral jsonb_array_elements(g.rule -> 'evidence') e (said) on true
    left join public.chat_turns t on t.id = (e.said ->> 'turn_id')::uuid and t.user_id = run.user_id and t.role = 'user'
      and t.chat_id = (e.said ->> 'chat_id')::uuid
      and exists (select from public.chat_histories c where c.id = t.chat_id and c.workspace_id is not distinct from run.workspace_id)
    where coalesce(position(nullif(e.said ->> 'quote', '') in t.text), 0) = 0
  ) then
    raise exception 'A quote is not in the turn that it names.' using errcode = 'RC422';
  end if;
  -- Where it was said, and by whom, is told by the chat itself.
  rules := (
    select jsonb_agg(g.rule || jsonb_build_object('evidence', (
      select jsonb_agg(jsonb_build_object(
        -- Colleagues need not know where on somebody's disk it was.
        'quote', e.said ->> 'quote', 'source', case when run.workspace_id is null then coalesce(c.file, c.source)
          else regexp_replace(coalesce(c.file, c.source), '^.*[/\\]', '') end, 'session', c.session, 'turn', t.number,
        'author', c.author, 'chat_id', c.id, 'turn_id', t.id) order by e.nth)
      from jsonb_array_elements(g.rule -> 'evidence') with ordinality e (said, nth)
      join public.chat_turns t on t.id = (e.said ->> 'turn_id')::uuid
      join public.chat_histories c on c.id = t.chat_id)) order by g.nth)
    from jsonb_array_elements(rules) with ordinality g (rule, nth));
  return query
  with given as materialized (
    select g.nth, g.rule, coalesce(k.id, private.new_id()) as id, k.id is not null as is_known
    from jsonb_array_elements(rules) with ordinality as g (rule, nth)
    left join public.extracted_rules k on k.id = (g.rule ->> 'id')::uuid
      and (k.workspace_id = run.workspace_id or (run.workspace_id is null and k.owner_id = run.user_id))
  ), made as (
    insert into public.extracted_rules
      (id, rule_text, rule_category, source_session_ids, mem0_memory_id, confidence_score, workspace_id, owner_id, project_id,
       extracted_by, kind, scope, evidence, contradicts, made_by)
    select g.id, g.rule ->> 'rule_text', g.rule ->> 'category',
           array(select distinct (e ->> 'chat_id')::uuid from jsonb_array_elements(g.rule -> 'evidence') e),
           g.rule ->> 'mem0_memory_id', (g.rule ->> 'confidence')::double precision, run.workspace_id,
           case when run.workspace_id is null then run.user_id end,
           (select (array_agg(c.project_id))[1] from jsonb_array_elements(g.rule -> 'evidence') e
            join public.chat_histories c on c.id = (e ->> 'chat_id')::uuid
            having count(distinct c.project_id) = 1 and count(*) = count(c.project_id) and g.rule -> 'scope' ->> 'reach' = 'project'),
           run.user_id, g.rule ->> 'kind',
           jsonb_build_object('reach', g.rule -> 'scope' ->> 'reach', 'project',
             case when run.workspace_id is null then g.rule -> 'scope' ->> 'project'
             else regexp_replace(g.rule -> 'scope' ->> 'project', '^.*[/\\](?=.)', '') end),
           g.rule -> 'evidence',
           private.rules_named(run, g.rule -> 'contradicts'),
           g.rule ->> 'made_by'
    from given g where not g.is_known
    returning extracted_rules.id, extracted_rules.rule_category
  ), pending as (
    insert into public.rule_approvals (rule_id) select m.id from made m
  ), told as (
    insert into events.log (type, subject, user_id, workspace_id, actor, data)
    select 'rule.extracted', 'rule/' || m.id, case when run.workspace_id is null then run.user_id end, run.workspace_id,
           coalesce((auth.jwt() ->> 'act')::uuid, auth.uid()), jsonb_build_object('ruleId', m.id, 'category', m.rule_category)
    from made m
  ), raised as (
    -- What was said once more is more evidence, and not another rule: a fifth of the doubt goes with each further chat.
    update public.extracted_rules r
    set evidence = r.evidence || news.evidence,
        source_session_ids = array(select distinct s from unnest(r.source_session_ids || news.chats) s),
        confidence_score = greatest((g.rule ->> 'confidence')::double precision, r.confidence_score,
          least(0.99, 1 - (1 - r.confidence_score) * 0.8 ^ (select count(distinct c) from unnest(news.chats) c
                                                            where c <> all (r.source_session_ids)))),
        -- What a second person asks for too is more than the first one's habit.
        scope = case when r.workspace_id is not null and r.extracted_by <> run.user_id
                     then r.scope || '{"reach": "team"}' else r.scope end,
        contradicts = array(select distinct o from unnest(r.contradicts || private.rules_named(run, g.rule -> 'contradicts')) o
                            where o <> r.id),
        updated_at = clock_timestamp()
    from given g, lateral (
      select coalesce(jsonb_agg(e.said), '[]') as evidence, array_agg((e.said ->> 'chat_id')::uuid) as chats
      from jsonb_array_elements(g.rule -> 'evidence') e (said)
      where not exists (
        select from public.extracted_rules o, jsonb_array_elements(o.evidence) x (old)
        where o.id = g.id and x.old ->> 'turn_id' = e.said ->> 'turn_id'
          -- More or less of the same words is the same said once.
          and (position(x.old ->> 'quote' in e.said ->> 'quote') > 0 or position(e.said ->> 'quote' in x.old ->> 'quote') > 0))
    ) news
    where g.is_known and r.id = g.id and news.evidence <> '[]'
    returning r.id
  )
  select g.nth, g.id, not g.is_known, exists (select from raised where raised.id = g.id) from given g order by g.nth;
  update public.chat_turns t set analysed_in = in_run where t.user_id = run.user_id and t.id = any (read_turns);
  perform pg_notify('recollect_outbox', '');
end $$;
comment on function private.note_rules is
  'Write down what an extraction found: new rules as pending, and for known ones (by their id) what was said again.';
revoke execute on function private.note_rules, private.rules_named, private.spent_in, private.hold_chat from public, anon;
grant execute on function private.note_rules, private.hold_chat to authenticated, service_role;

create or replace function private.forget_quotes() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  forgotten uuid[] := array(select g.id from gone g);
begin
  -- What people have decided stays; a proposal that nobody asks for any more does not.
  delete from public.extracted_rules r using public.rule_approvals a
  where a.rule_id = r.id and a.status = 'pending' and r.source_session_ids && forgotten and r.source_session_ids <@ forgotten;
  update public.extracted_rules r
  set source_session_ids = array(select s from unnest(r.source_session_ids) s where s <> all (forgotten)),
      evidence = (select coalesce(jsonb_agg(e.said order by e.nth), '[]')
                  from jsonb_array_elements(r.evidence) with ordinality e (said, nth)
                  where (e.said ->> 'chat_id')::uuid <> all (forgotten)),
      -- The memory of its first quote went with the chat.
      mem0_memory_id = case when (r.evidence -> 0 ->> 'chat_id')::uuid = any (forgotten) then null else r.mem0_memory_id end,
      updated_at = clock_timestamp()
  where r.source_session_ids && forgotten;
  return null;
end $$;
