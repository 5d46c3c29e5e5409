-- A search among few memories is one query, from whose memories they are to what is said of them.

set search_path = public, extensions;

drop function private.find_memories, private.weigh_few;

create view private.shown with (security_invoker = true) as
select m.id, m.text, m.kind, m.of_user as "user", m.of_agent as agent, m.of_app as app, m.of_run as run,
       m.workspace_id as workspace, m.company_id as company, m.role, m.speaker, m.metadata, m.categories, m.importance,
       m.occurred_at, m.created_at, m.updated_at, m.expires_at, m.valid_from, m.valid_until, m.superseded_by, m.feedback,
       m.feedback_reason, m.version, m.made_by
from public.memories m;
comment on view private.shown is 'Memories as a search shows them.';

-- A type of its own: what a function returns as a table Postgres puts together anew at each call.
create type private.found as (
  id uuid, text text, kind text, "user" text, agent text, app text, run text, workspace uuid, company uuid, role text,
  speaker text, metadata jsonb, categories text[], importance real, occurred_at timestamptz, created_at timestamptz,
  updated_at timestamptz, expires_at timestamptz, valid_from timestamptz, valid_until timestamptz, superseded_by uuid,
  feedback text, feedback_reason text, version integer, made_by text,
  score float8, breakdown json, among integer);

create function private.breakdown_of(
  lexical float8, turn float8, of_three float8, of_five float8, similarity float8, recency float8, importance real
) returns json
language sql stable as $$
  select json_build_object(
    'lexical', coalesce(lexical, 0), 'turn', coalesce(turn, 0), 'window_of_three', coalesce(of_three, 0),
    'window_of_five', coalesce(of_five, 0), 'meaning', similarity, 'recency', recency, 'importance', importance)
$$;
comment on function private.breakdown_of is 'What a score is made of, for whoever asks.';

create type private.weighable as (
  id uuid, created_at timestamptz, occurred_at timestamptz, importance real, terms bigint[], spot bigint);

create function private.weighable_in(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb, at_most integer
) returns setof private.weighable
-- As many as to have Postgres join them by hashes, also where it knows nothing of them yet.
language plpgsql stable rows 1000 as $$
begin
  if by_run is not null then
    return query
    select m.id, m.created_at, m.occurred_at, m.importance, m.terms, private.spot_of(m.stream, m.position, m.id)
    from public.memories m where m.tenant = in_tenant and m.of_run = by_run
      and private.passes(m, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")
    limit at_most;
  elsif by_user is not null then
    return query
    select m.id, m.created_at, m.occurred_at, m.importance, m.terms, private.spot_of(m.stream, m.position, m.id)
    from public.memories m where m.tenant = in_tenant and m.of_user = by_user
      and private.passes(m, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")
    limit at_most;
  else
    return query
    select m.id, m.created_at, m.occurred_at, m.importance, m.terms, private.spot_of(m.stream, m.position, m.id)
    from private.memories_in(
      in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") m
    limit at_most;
  end if;
end $$;
comment on function private.weighable_in is
  'What a search reads of a tenant''s memories that pass. As private.memories_in, whose plan Postgres sets up for every '
  'entity at each call; here those that are named most often have plans of their own.';

create function private.find_memories(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb,
  forms text, of_words integer[], model_named text, wanted vector, few integer, exact integer, size integer,
  meaning_weighs real, recency_weighs real, half_life interval, importance_weighs real,
  at_least real, at_most integer, explained boolean
) returns setof private.found
language plpgsql stable security definer
-- Of what a search joins, little would be sorted any sooner than hashed.
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_mergejoin = off as $$
declare
  sought bigint[] := private.terms(in_tenant, forms);
begin
  perform private.hold_to_tenant(in_tenant);
  if size is null then
    return query
    with scope as materialized (
      select m.*, cardinality(m.terms) as length,
             case when recency_weighs > 0 then
               private.recency_of(coalesce(m.occurred_at, m.created_at), half_life) end as recency
      from private.weighable_in(
        in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values", few + 1) m
    ), counted as materialized (
      select count(*)::integer as memories, greatest(avg(s.length), 1)::float8 as average from scope s
    ), near as materialized (
      -- All at once: one walk through the index of their ids, instead of looking each up.
      select v.memory_id, greatest(1 - (v.embedding <=> wanted), 0) as similarity from public.memory_vectors v
      where v.tenant = in_tenant and v.model = model_named and v.dimension = vector_dims(wanted)
        and v.memory_id = any (array(select s.id from scope s))
    ), said as materialized (
      select array_agg(w.word) as words, array_agg(cardinality(array_positions(s.terms, w.term))) as times,
             array_agg(s.spot) as spots, array_agg(s.length) as lengths,
             array_fill(0, array[coalesce(max(w.word), 0)]) as having_it,
             -- Words that nothing has speak against nothing.
             least(count(*), 1)::integer as weigh
      from scope s join unnest(sought, of_words) w (term, word) on w.term = any (s.terms)
      -- Most have none of them, which this tells sooner.
      where s.terms && sought
    ), ranked as (
      select r.*, (r.turn + r.of_three + r.of_five) / 3 as lexical
      from counted c cross join said s
      cross join private.rank_by_words(s.words, s.times, s.spots, s.lengths, c.memories, c.average, s.having_it) r
      where s.weigh > 0
    ), best as (
      select s.id, s.created_at, r.lexical, r.turn, r.of_three, r.of_five, n.similarity, s.recency,
             private.mean_of(r.lexical, w.weigh, n.similarity, meaning_weighs, s.recency, recency_weighs,
                             s.importance, importance_weighs) as score
      from scope s cross join said w left join near n on n.memory_id = s.id left join ranked r on r.spot = s.spot
      -- What nothing speaks for but its age or its importance has not been asked for.
      where r.lexical > 0 or n.similarity > 0
      order by score desc, s.created_at desc, s.id
      limit at_most
    )
    select m.*, b.score,
           case when explained then private.breakdown_of(
             b.lexical, b.turn, b.of_three, b.of_five, b.similarity, b.recency, m.importance) end,
           size
    from best b join private.shown m on m.id = b.id
    where b.score >= at_least and (select c.memories from counted c) <= few
    order by b.score desc, b.created_at desc, b.id;
    if found then
      return;
    end if;
    -- Nothing fits, or they are more than a few.
    select count(*) into size from private.memories_in(
      in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") m;
    if size <= few then
      return;
    end if;
  end if;
  return query
  select m.*, b.score,
         case when explained then private.breakdown_of(
           b.lexical, b.turn, b.of_three, b.of_five, b.similarity, b.recency, m.importance) end,
         size
  from unnest(private.weigh_many(
    in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values",
    sought, of_words, model_named, wanted, few, exact, size, meaning_weighs, recency_weighs, half_life,
    importance_weighs, at_least, at_most)) b
  join private.shown m on m.id = b.memory_id
  order by b.score desc, m.created_at desc, m.id;
end $$;
comment on function private.find_memories is
  'The best memories: those near in meaning and those with the words, weighed together. Whoever knows that there are '
  'more than a few says how many; else it is found out, and said.';

-- A function that acts as its owner looks nothing up but where we say; the vectors' type is where the project has it.
do $$
declare
  home name := (
    select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
begin
  execute format('alter function private.find_memories set search_path = %I, pg_temp', home);
end $$;

revoke execute on function private.breakdown_of, private.weighable_in, private.find_memories from public;
grant execute on function private.find_memories to authenticated, service_role;

reset search_path;
