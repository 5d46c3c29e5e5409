-- An extraction counts its own model calls, and no other's; a rule that is said again may contradict more than before.

alter table public.model_calls add column part_of uuid;
comment on column public.model_calls.part_of is 'The piece of work that it was asked for, if that keeps account: an extraction.';
create index idx_model_calls_part_of on public.model_calls (part_of) where part_of is not null;

create or replace function private.tokens_spent(run public.extraction_runs, out input bigint, out output bigint)
language sql stable set search_path = '' as $$
  select coalesce(sum(c.input_tokens), 0), coalesce(sum(c.output_tokens), 0) from public.model_calls c where c.part_of = run.id
$$;

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
        'quote', e.said ->> 'quote', 'source', coalesce(c.file, c.source), 'session', c.session, 'turn', t.number,
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
           jsonb_build_object('reach', g.rule -> 'scope' ->> 'reach', 'project', g.rule -> 'scope' ->> 'project'),
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
        where o.id = g.id and x.old ->> 'turn_id' = e.said ->> 'turn_id' and x.old ->> 'quote' = e.said ->> 'quote')
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
revoke execute on function private.note_rules, private.rules_named from public, anon;
grant execute on function private.note_rules to authenticated, service_role;

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
