-- Where nobody has said any of the words that are looked for, meaning alone decides, and most of the work is not done.

set search_path = public, extensions;

create or replace function private.find_memories(
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
  scope private.weighable[];
  memories integer;
  average float8;
  has_words boolean;
begin
  perform private.hold_to_tenant(in_tenant);
  if size is null then
    -- As private.memories_in, whose plan Postgres sets up for every entity at each call: here those that are named
    -- most often have plans of their own.
    if by_run is not null then
      select array_agg(m::private.weighable), count(*), greatest(avg(cardinality(m.terms)), 1), bool_or(m.terms && sought)
      into scope, memories, average, has_words
      from (select m.id, m.created_at, m.occurred_at, m.importance, m.terms, private.spot_of(m.stream, m.position, m.id)
            from public.memories m where m.tenant = in_tenant and m.of_run = by_run
              and private.passes(m, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")
            limit few + 1) m;
    elsif by_user is not null then
      select array_agg(m::private.weighable), count(*), greatest(avg(cardinality(m.terms)), 1), bool_or(m.terms && sought)
      into scope, memories, average, has_words
      from (select m.id, m.created_at, m.occurred_at, m.importance, m.terms, private.spot_of(m.stream, m.position, m.id)
            from public.memories m where m.tenant = in_tenant and m.of_user = by_user
              and private.passes(m, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")
            limit few + 1) m;
    else
      select array_agg(m::private.weighable), count(*), greatest(avg(cardinality(m.terms)), 1), bool_or(m.terms && sought)
      into scope, memories, average, has_words
      from (select m.id, m.created_at, m.occurred_at, m.importance, m.terms, private.spot_of(m.stream, m.position, m.id)
            from private.memories_in(
              in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") m
            limit few + 1) m;
    end if;
    if memories <= few and not has_words and recency_weighs = 0 and importance_weighs = 0 then
      return query
      select m.*, n.similarity,
             case when explained then private.breakdown_of(
               null, null, null, null, n.similarity, null, m.importance) end,
             size
      from (
        select v.memory_id, greatest(1 - (v.embedding <=> wanted), 0) as similarity from public.memory_vectors v
        where v.tenant = in_tenant and v.model = model_named and v.dimension = vector_dims(wanted)
          and v.memory_id = any (array(select s.id from unnest(scope) s))
        -- Which of the last come first is decided below, by what is read of these few alone.
        order by similarity desc fetch first at_most rows with ties
      ) n join private.shown m on m.id = n.memory_id
      where n.similarity > 0 and n.similarity >= at_least
      order by n.similarity desc, m.created_at desc, m.id
      limit at_most;
      return;
    elsif memories <= few then
      return query
      with near as materialized (
        -- All at once: one walk through the index of their ids, instead of looking each up.
        select v.memory_id, greatest(1 - (v.embedding <=> wanted), 0) as similarity from public.memory_vectors v
        where v.tenant = in_tenant and v.model = model_named and v.dimension = vector_dims(wanted)
          and v.memory_id = any (array(select s.id from unnest(scope) s))
      ), said as materialized (
        select array_agg(w.word) as words, array_agg(cardinality(array_positions(s.terms, w.term))) as times,
               array_agg(s.spot) as spots, array_agg(cardinality(s.terms)) as lengths,
               array_fill(0, array[coalesce(max(w.word), 0)]) as having_it,
               -- Words that nothing has speak against nothing.
               least(count(*), 1)::integer as weigh
        from unnest(scope) s join unnest(sought, of_words) w (term, word) on w.term = any (s.terms)
        -- Most have none of them, which this tells sooner.
        where s.terms && sought
      ), ranked as (
        select r.*, (r.turn + r.of_three + r.of_five) / 3 as lexical
        from said s
        cross join private.rank_by_words(s.words, s.times, s.spots, s.lengths, memories, average, s.having_it) r
        where s.weigh > 0
      ), best as (
        select s.id, s.created_at, r.lexical, r.turn, r.of_three, r.of_five, n.similarity, s.recency,
               private.mean_of(r.lexical, w.weigh, n.similarity, meaning_weighs, s.recency, recency_weighs,
                               s.importance, importance_weighs) as score
        from (
          select s.*, case when recency_weighs > 0 then
                   private.recency_of(coalesce(s.occurred_at, s.created_at), half_life) end as recency
          from unnest(scope) s
        ) s
        cross join said w left join near n on n.memory_id = s.id left join ranked r on r.spot = s.spot
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
      where b.score >= at_least
      order by b.score desc, b.created_at desc, b.id;
      return;
    end if;
    select count(*) into size from private.memories_in(
      in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") m;
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

-- A function that acts as its owner looks nothing up but where we say; the vectors' type is where the project has it.
do $$
declare
  home name := (
    select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
begin
  execute format('alter function private.find_memories set search_path = %I, pg_temp', home);
end $$;

drop function private.weighable_in;

-- Kept by the session once it has been read, which one in SQL is not when it acts as its owner.
create or replace function private.claims_of_user(known uuid, needs text, subject uuid) returns text
language plpgsql stable security definer set search_path = '' as $$
begin
  return private.claims(known, '{read,write,admin}', needs, subject, '{}');
end $$;

reset search_path;
