-- A search is one statement; adding and deleting have less to do for each memory.

set search_path = public, extensions;

drop function private.words_in_few, private.words_in_many, private.find_memories, private.scores_of, private.scores_at;

-- What each memory costs ---------------------------------------------------------------------------

-- What belongs to a memory goes with it, and asks nobody else whether its tenant is there.
do $$
declare
  part regclass;
  outdated name;
begin
  foreach part in array array['public.memory_vectors', 'public.memory_versions', 'public.memory_links']::regclass[] loop
    for outdated in
      select c.conname from pg_constraint c
      where c.conrelid = part and c.contype = 'f' and c.confrelid <> 'public.memories'::regclass
    loop
      execute format('alter table %s drop constraint %I', part, outdated);
    end loop;
  end loop;
end $$;
drop index public.idx_memory_vectors_owner_id, public.idx_memory_vectors_workspace_id, public.idx_memory_vectors_company_id,
  public.idx_memory_versions_owner_id, public.idx_memory_versions_workspace_id, public.idx_memory_versions_company_id,
  public.idx_memory_links_owner_id, public.idx_memory_links_workspace_id, public.idx_memory_links_company_id;

-- What is deleted is found by its id and by its date alone.
drop index public.idx_memories_workspace_id, public.idx_memories_of_user, public.idx_memories_of_agent,
  public.idx_memories_of_app, public.idx_memories_of_run, public.idx_memories_terms;
create index idx_memories_workspace_id on public.memories (workspace_id) where workspace_id is not null;
create index idx_memories_of_user on public.memories (tenant, of_user) where of_user is not null and deleted_at is null;
create index idx_memories_of_agent on public.memories (tenant, of_agent) where of_agent is not null and deleted_at is null;
create index idx_memories_of_app on public.memories (tenant, of_app) where of_app is not null and deleted_at is null;
create index idx_memories_of_run on public.memories (tenant, of_run) where of_run is not null and deleted_at is null;
-- A search reads what was not yet sorted in one by one: little is left unsorted.
create index idx_memories_terms on public.memories using gin (terms) with (gin_pending_list_limit = 256)
  where deleted_at is null;

-- Adding -------------------------------------------------------------------------------------------

drop function private.add_turns, private.add_facts;

create or replace function private.hold_stream(
  for_owner uuid, in_workspace uuid, user_named text, agent_named text, app_named text, run_named text
) returns public.memory_streams
language sql volatile set search_path = '' as $$
  insert into public.memory_streams as s (owner_id, workspace_id, tenant, of_user, of_agent, of_app, of_run)
  values (for_owner, in_workspace, coalesce(in_workspace, for_owner), user_named, agent_named, app_named, run_named)
  on conflict (tenant, of_user, of_agent, of_app, of_run) do update set turns = s.turns
  returning s.*
$$;

create or replace function private.bury_expired(in_tenant uuid, said bytea[]) returns void
language plpgsql volatile set search_path = '' as $$
declare
  expired uuid[] := array(
    select m.id from public.memories m
    where m.tenant = in_tenant and m.digest = any (said) and m.deleted_at is null and m.valid_until is null
      and m.expires_at <= now());
begin
  -- Seldom any, and to change none costs as much as to add one: what notes a change is called all the same.
  if cardinality(expired) > 0 then
    update public.memories m set deleted_at = now(), event = 'DELETE', reason = 'expired, and said again'
    where m.id = any (expired) and m.deleted_at is null;
  end if;
end $$;

create function private.add_turns(
  in_workspace uuid, user_named text, agent_named text, app_named text, run_named text,
  texts text[], roles text[], speakers text[], digests bytea[], words text[], sizes integer[],
  model_named text, dimension_named smallint, vectors text,
  described jsonb, in_categories text[], weighing real, said_at timestamptz[], until timestamptz, because text
) returns table (nth bigint, id uuid, event text)
language plpgsql security definer
-- Planned once, and not for the few rows that there may be when that is.
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_column
declare
  for_owner uuid := case when in_workspace is null then auth.uid() end;
  acting uuid := coalesce((auth.jwt() ->> 'act')::uuid, auth.uid());
  lane public.memory_streams;
begin
  perform private.hold_to_tenant(coalesce(in_workspace, for_owner), '{owner,admin,reviewer,member}');
  lane := private.hold_stream(for_owner, in_workspace, user_named, agent_named, app_named, run_named);
  perform private.bury_expired(lane.tenant, digests);
  perform private.note_model(model_named);
  return query
  with given as (
    select * from unnest(texts, roles, speakers, digests, words, sizes, string_to_array(vectors, ' '), said_at)
      with ordinality as g (said, role, speaker, digest, terms, tokens, vector, occurred_at, nth)
  ), looked_up as materialized (
    select g.*, (select m.id from public.memories m where m.tenant = lane.tenant and m.digest = g.digest
                 and m.deleted_at is null and m.valid_until is null) as known
    from given g
  ), new_ones as materialized (
    select l.*, private.new_id() as id, lane.turns + row_number() over (order by l.nth) as place from looked_up l
    where l.known is null
  ), stored as (
    insert into public.memories
      (id, owner_id, workspace_id, tenant, of_user, of_agent, of_app, of_run, kind, role, speaker, text, metadata,
       categories, importance, terms, tokens, stream, position, digest, occurred_at, expires_at, actor, reason)
    select n.id, for_owner, in_workspace, lane.tenant, user_named, agent_named, app_named, run_named, 'turn', n.role,
           n.speaker, n.said, described, in_categories, weighing,
           array(select private.term(lane.tenant, w.word) from unnest(string_to_array(nullif(n.terms, ''), ' ')) w (word)),
           n.tokens, lane.id, n.place, n.digest, n.occurred_at, until, acting, because
    from new_ones n
  ), placed as (
    insert into public.memory_vectors (memory_id, owner_id, workspace_id, tenant, model, dimension, embedding)
    select n.id, for_owner, in_workspace, lane.tenant, model_named, dimension_named, n.vector::vector
    from new_ones n
  ), counted as (
    update public.memory_streams s set turns = f.place from (select max(n.place) as place from new_ones n) f
    where s.id = lane.id and f.place is not null
  )
  select n.nth, n.id, 'ADD' from new_ones n
  union all select l.nth, l.known, 'NONE' from looked_up l where l.known is not null
  order by 1;
end $$;
comment on function private.add_turns is
  'Store turns that follow one another. What the same request has stored before stays, and is named.';

create function private.add_facts(
  in_workspace uuid, user_named text, agent_named text, app_named text, run_named text,
  texts text[], digests bytea[], slots bytea[], words text[], sizes integer[],
  model_named text, dimension_named smallint, vectors text,
  replaced jsonb, described jsonb, in_categories text[], weights real[], said_at timestamptz, until timestamptz,
  because text, made_with text, nearly real
) returns table (nth bigint, id uuid, event text, before text)
language plpgsql security definer
-- Planned once, and not for the few rows that there may be when that is.
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_column
declare
  for_owner uuid := case when in_workspace is null then auth.uid() end;
  lane public.memory_streams;
  fact record;
  known uuid;
  stored uuid;
  acting uuid := coalesce((auth.jwt() ->> 'act')::uuid, auth.uid());
  previous record;
  this_moment timestamptz;
  told_at timestamptz;
  newer record;
  -- Where nobody else is named, the run is whom it is about.
  of_nobody_else text := case when num_nonnulls(user_named, agent_named, app_named) = 0 then run_named end;
begin
  perform private.hold_to_tenant(coalesce(in_workspace, for_owner), '{owner,admin,reviewer,member}');
  -- One at a time for each entity: of two that contradict each other, one comes second.
  lane := private.hold_stream(for_owner, in_workspace, user_named, agent_named, app_named, of_nobody_else);
  perform private.note_model(model_named);
  -- When it is our turn, and not when we began to wait for it.
  this_moment := clock_timestamp();
  told_at := coalesce(said_at, this_moment);
  perform private.bury_expired(lane.tenant, digests);
  for fact in
    select * from unnest(texts, digests, slots, words, sizes, string_to_array(vectors, ' '), weights) with ordinality
      as g (said, digest, slot, terms, tokens, vector, weight, nth)
  loop
    select m.id into known from public.memories m
    where m.tenant = lane.tenant and m.digest = fact.digest and m.deleted_at is null and m.valid_until is null;
    if found then
      return query select fact.nth, known, 'NONE', null::text;
      continue;
    end if;
    stored := private.new_id();
    -- What is told late and was true earlier is history from the start.
    select m.id, m.valid_from into newer from public.memories m
    where m.tenant = lane.tenant and m.slot = fact.slot and m.deleted_at is null and m.valid_until is null
      and m.valid_from > told_at;
    for previous in
      update public.memories m
      set valid_until = this_moment, superseded_by = stored, event = 'SUPERSEDE',
          reason = coalesce(because, 'a newer fact says otherwise')
      where m.tenant = lane.tenant and m.deleted_at is null and m.valid_until is null and m.kind = 'fact'
        and m.of_user is not distinct from user_named and m.of_agent is not distinct from agent_named
        and m.of_app is not distinct from app_named and (of_nobody_else is null or m.of_run = of_nobody_else)
        and m.valid_from <= told_at
        and (m.slot = fact.slot or m.id in (
          select (r.value #>> '{}')::uuid from jsonb_array_elements(coalesce(replaced -> (fact.nth - 1)::integer, '[]')) r))
      returning m.id, m.text
    loop
      return query select fact.nth, previous.id, 'SUPERSEDE', previous.text;
    end loop;
    insert into public.memories
      (id, owner_id, workspace_id, tenant, of_user, of_agent, of_app, of_run, kind, text, metadata, categories, importance,
       terms, tokens, digest, slot, occurred_at, expires_at, valid_from, valid_until, superseded_by, actor, reason, made_by)
    values
      (stored, for_owner, in_workspace, lane.tenant, user_named, agent_named, app_named, run_named, 'fact', fact.said,
       described, in_categories, fact.weight, private.terms(lane.tenant, fact.terms), fact.tokens, fact.digest, fact.slot, said_at,
       until, told_at, newer.valid_from, newer.id, acting, because, made_with);
    if fact.vector is not null then
      insert into public.memory_links (memory_id, other_id, owner_id, workspace_id, tenant, similarity)
      select stored, m.id, for_owner, in_workspace, lane.tenant, 1 - (v.embedding <=> fact.vector::vector)
      from public.memory_vectors v
      join private.memories_in(
        lane.tenant, user_named, agent_named, app_named, of_nobody_else, false, false, null, null) m on m.id = v.memory_id
      where v.model = model_named and v.dimension = dimension_named and m.kind = 'fact' and m.id <> stored
        and m.of_user is not distinct from user_named and m.of_agent is not distinct from agent_named
        and m.of_app is not distinct from app_named
        and 1 - (v.embedding <=> fact.vector::vector) >= nearly
      order by v.embedding <=> fact.vector::vector limit 5;
      insert into public.memory_vectors (memory_id, owner_id, workspace_id, tenant, model, dimension, embedding)
      values (stored, for_owner, in_workspace, lane.tenant, model_named, dimension_named, fact.vector::vector);
    end if;
    return query select fact.nth, stored, 'ADD', null::text;
  end loop;
end $$;
comment on function private.add_facts is
  'Store facts of one entity: an identical one stays, one that it contradicts is superseded, near ones are linked.';

-- Words --------------------------------------------------------------------------------------------

create function private.spot_of(stream bigint, place integer, id uuid) returns bigint
language sql immutable parallel safe as $$
  select case when stream is null then uuid_hash_extended(id, 0) | (1::bigint << 63) else (stream << 24) + place end
$$;
comment on function private.spot_of is
  'Where a memory stands, as one number: neighbours in a stream differ by one, and what is in no stream has none.';

create function private.rank_by_words(
  words integer[], times integer[], spots bigint[], lengths integer[],
  in_all integer, average float8, having_it integer[]
) returns table (spot bigint, turn float8, of_three float8, of_five float8)
language plpgsql stable rows 1000
-- Postgres knows nothing of how much is in an array; with few words any other join would be as good.
set search_path = '' set plan_cache_mode = force_generic_plan set enable_nestloop = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  k1 constant float8 := 1.2;
  b constant float8 := 0.75;
begin
  if words is null then
    return;
  end if;
  return query
  with said as materialized (
    select p.spot + s.step as spot, p.word,
           sum(p.times) filter (where s.step = 0)::float8 as turn,
           sum(p.times) filter (where s.step in (-1, 0, 1))::float8 as of_three,
           sum(p.times)::float8 as of_five
    from unnest(words, times, spots) p (word, times, spot) cross join generate_series(-2, 2) s (step)
    group by 1, 2
  ), long as (
    -- What has none of the words, and so is not listed, counts as long as the average.
    select p.spot + s.step as spot,
           k1 * (1 + b * coalesce(sum(p.excess) filter (where s.step = 0), 0)) as turn,
           k1 * (1 + b * coalesce(sum(p.excess) filter (where s.step in (-1, 0, 1)), 0) / 3) as of_three,
           k1 * (1 + b * sum(p.excess) / 5) as of_five
    from (select distinct p.spot, p.length / average - 1 as excess from unnest(spots, lengths) p (spot, length)) p
    cross join generate_series(-2, 2) s (step)
    group by 1
  ), found_in as (
    select h.word, least(greatest(c.turn, h.memories), in_all) as turn,
           least(greatest(c.of_three, 3 * h.memories), in_all) as of_three,
           least(greatest(c.of_five, 5 * h.memories), in_all) as of_five
    from unnest(having_it) with ordinality h (memories, word)
    left join (select s.word, count(s.turn) as turn, count(s.of_three) as of_three, count(*) as of_five
               from said s group by s.word) c on c.word = h.word
    where c.word is not null or h.memories > 0
  ), weight as (
    select f.word, ln((in_all + 1) / (f.turn + 0.5::float8)) as turn,
           ln((in_all + 1) / (f.of_three + 0.5::float8)) as of_three,
           ln((in_all + 1) / (f.of_five + 0.5::float8)) as of_five
    from found_in f
  ), most as (
    select sum(w.turn) as turn, sum(w.of_three) as of_three, sum(w.of_five) as of_five from weight w
  )
  select s.spot, coalesce(sum(w.turn * s.turn / (s.turn + l.turn)) / (select m.turn from most m), 0),
         coalesce(sum(w.of_three * s.of_three / (s.of_three + l.of_three)) / (select m.of_three from most m), 0),
         sum(w.of_five * s.of_five / (s.of_five + l.of_five)) / (select m.of_five from most m)
  from said s join weight w on w.word = s.word join long l on l.spot = s.spot
  group by s.spot;
end $$;
comment on function private.rank_by_words is
  'BM25 of memories and of windows of their neighbours, from how often each word is said at which spot, and how long '
  'that memory is. A turn is often understood only with the one before it: an answer rarely repeats the words of its '
  'question. So each spot is ranked three times: alone, with one neighbour on each side, and with two. Each score is '
  'the share of what a text with every word in plenty would get: 0 is nothing in common, 1 is everything. Where not '
  'all memories with a word are listed, having_it says how many there are.';

-- Meaning, and all together ------------------------------------------------------------------------

create type private.ranked as (spot bigint, turn float8, of_three float8, of_five float8, memory_id uuid);
create type private.weighed as (
  memory_id uuid, score float8, lexical float8, turn float8, of_three float8, of_five float8, similarity float8,
  recency float8);

-- Postgres puts these two into the statements that use them.
create function private.recency_of(moment timestamptz, half_life interval) returns float8
language sql stable as $$
  -- No smaller than what a number can hold.
  select power(0.5::float8, least(greatest(extract(epoch from now() - moment), 0)::float8
                                  / extract(epoch from half_life)::float8, 1000))
$$;
create function private.mean_of(
  lexical float8, words_weigh integer, similarity float8, meaning_weighs real, recency float8, recency_weighs real,
  importance real, importance_weighs real
) returns float8
language sql immutable as $$
  select (words_weigh * coalesce(lexical, 0) + meaning_weighs * coalesce(similarity, 0)
          + recency_weighs * coalesce(recency, 0) + importance_weighs * coalesce(importance, 0))
         / nullif(words_weigh + meaning_weighs + recency_weighs + importance_weighs, 0)
$$;

create function private.weigh_few(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb,
  sought bigint[], of_words integer[], model_named text, wanted vector, few integer,
  meaning_weighs real, recency_weighs real, half_life interval, importance_weighs real,
  at_least real, at_most integer
) returns private.weighed[]
language plpgsql stable as $$
#variable_conflict use_column
begin
  return (
  with scope as materialized (
    select m.id, m.created_at, m.importance, m.terms, cardinality(m.terms) as length,
           private.spot_of(m.stream, m.position, m.id) as spot,
           -- Looked up one by one: so it takes as long for the first searches in a new database, of which Postgres
           -- knows nothing yet, as for all others.
           (select greatest(1 - (v.embedding <=> wanted), 0) from public.memory_vectors v
            where v.tenant = in_tenant and v.model = model_named and v.memory_id = m.id
              and v.dimension = vector_dims(wanted)) as similarity,
           case when recency_weighs > 0 then
             private.recency_of(coalesce(m.occurred_at, m.created_at), half_life) end as recency
    from private.memories_in(
      in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") m
    limit few + 1
  ), counted as materialized (
    select count(*)::integer as memories, greatest(avg(s.length), 1)::float8 as average from scope s
  ), said as materialized (
    select array_agg(w.word) as words, array_agg(cardinality(array_positions(s.terms, w.term))) as times,
           array_agg(s.spot) as spots, array_agg(s.length) as lengths,
           array_fill(0, array[coalesce(max(w.word), 0)]) as having_it,
           -- Words that nothing has speak against nothing.
           least(count(*), 1)::integer as weigh
    from scope s join unnest(sought, of_words) w (term, word) on w.term = any (s.terms)
  ), ranked as (
    select r.*, (r.turn + r.of_three + r.of_five) / 3 as lexical
    from counted c cross join said s
    cross join private.rank_by_words(s.words, s.times, s.spots, s.lengths, c.memories, c.average, s.having_it) r
  ), best as (
    select s.id, private.mean_of(r.lexical, w.weigh, s.similarity, meaning_weighs, s.recency, recency_weighs,
                                 s.importance, importance_weighs) as score,
           r.lexical, r.turn, r.of_three, r.of_five, s.similarity, s.recency
    from scope s cross join said w left join ranked r on r.spot = s.spot
    -- What nothing speaks for but its age or its importance has not been asked for.
    where r.lexical > 0 or s.similarity > 0
    order by score desc, s.created_at desc, s.id
    limit at_most
  )
  select case when c.memories <= few then array(select b::private.weighed from best b where b.score >= at_least) end
  from counted c);
end $$;
comment on function private.weigh_few is 'The best of so few memories that each can be read; null if they are more.';

create function private.rank_many(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb,
  sought bigint[], of_words integer[], size integer, sampled integer, best integer
) returns private.ranked[]
language plpgsql stable
-- As above, and by the index of words all the same: there each word is looked up in its turn.
set enable_nestloop = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  usual float8;
begin
  select greatest(avg(cardinality(f.terms)), 1) into usual from (
    select m.terms from private.memories_in(
      in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") m
    limit sampled) f;
  return (
  with pairs as materialized (
    select w.word, cardinality(array_positions(m.terms, w.term)) as times, m.id,
           private.spot_of(m.stream, m.position, m.id) as spot, cardinality(m.terms) as length
    from unnest(sought, of_words) w (term, word)
    cross join lateral (
      -- A tenant's words are nobody else's: theirs is the only index that this leaves to be chosen.
      select c.* from public.memories c
      where c.terms @> array[w.term] and c.tenant is not distinct from in_tenant
        and private.passes(c, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")) m
  ), found_in as (
    select p.word, count(*)::integer as memories, ln((size + 1) / (count(*) + 0.5)) as weight from pairs p group by p.word
  ), most_telling as (
    -- Of very many only the most promising go on, by the weight of their words.
    select p.id from pairs p join found_in f using (word) group by p.id
    order by sum(f.weight * p.times / (p.times + 1.2)) desc limit 5 * best
  ), listed as materialized (
    select p.* from pairs p where p.id in (select t.id from most_telling t)
  ), said as (
    select array_agg(l.word) as words, array_agg(l.times) as times, array_agg(l.spot) as spots,
           array_agg(l.length) as lengths,
           array(select coalesce(f.memories, 0) from generate_series(1, (select max(w.word) from unnest(of_words) w (word)))
                   n (word) left join found_in f on f.word = n.word order by n.word) as having_it
    from listed l
  ), best as (
    select r.* from said s
    cross join private.rank_by_words(s.words, s.times, s.spots, s.lengths, size, usual, s.having_it) r
    order by r.turn + r.of_three + r.of_five desc limit best
  )
  select array_agg((b.spot, b.turn, b.of_three, b.of_five, l.id)::private.ranked)
  from best b left join (select distinct l.spot, l.id from listed l) l on l.spot = b.spot);
end $$;
comment on function private.rank_many is
  'The best spots by words, of a scope too large to be read: by the index of words, from the most promising memories. '
  'A spot that has none of the words itself, beside one that has, comes without its memory.';

-- Kept as a function, and so as large as it says: for an array Postgres would count on ten.
create function private.each_ranked(best private.ranked[]) returns setof private.ranked
language sql immutable strict rows 1000 set search_path = '' as $$ select * from unnest(best) $$;

create or replace function private.nearest_by_index(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb,
  model_named text, wanted vector, best integer
) returns table (memory_id uuid, similarity float8)
language plpgsql stable as $$
begin
  -- Only with the tenant and the model spelled out does Postgres see that their own index serves. Each memory that it
  -- comes upon is looked up by its id.
  return query execute format($sql$
    select v.memory_id, 1 - ((v.embedding::vector(%1$s)) <=> $1)
    from public.memory_vectors v join public.memories m on m.id = v.memory_id
    where v.tenant = %2$L and v.model = %3$L and v.dimension = %1$s
      and m.tenant = %2$L and private.passes(m, $2, $3, $4, $5, $6, $7, $8, $9)
    order by (v.embedding::vector(%1$s)) <=> $1 limit $10
  $sql$, vector_dims(wanted), in_tenant, model_named)
  using wanted, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values", best;
end $$;

create function private.weigh_many(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb,
  sought bigint[], of_words integer[], model_named text, wanted vector, few integer, exact integer, size integer,
  meaning_weighs real, recency_weighs real, half_life interval, importance_weighs real,
  at_least real, at_most integer
) returns private.weighed[]
language plpgsql stable as $$
#variable_conflict use_column
declare
  best constant integer := greatest(200, 2 * at_most);
  by_words private.ranked[] := private.rank_many(
    in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values",
    sought, of_words, size, few, best);
  near_ids uuid[];
begin
  if size > exact and wanted is not null and private.is_indexed(in_tenant, model_named) then
    perform set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', '200', true);
    near_ids := array(
      select n.memory_id from private.nearest_by_index(
        in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values",
        model_named, wanted, best) n);
    -- Where so little passes the filter that the index has not found enough, all are compared after all.
    near_ids := case when cardinality(near_ids) = best then array(
      select n.id from unnest(near_ids) n (id)
      union
      select coalesce(r.memory_id, m.id) from unnest(by_words) r
      left join public.memories m on m.stream = r.spot >> 24 and m.position = r.spot & 16777215) end;
  end if;
  return array(
    select (s.id, s.score, s.lexical, s.turn, s.of_three, s.of_five, s.similarity, s.recency)::private.weighed
    from (
      select s.*, private.mean_of(s.lexical, (by_words is not null)::integer, s.similarity, meaning_weighs,
                                  s.recency, recency_weighs, s.importance, importance_weighs) as score
      from (
        select m.id, m.created_at, m.importance, r.turn, r.of_three, r.of_five,
               (r.turn + r.of_three + r.of_five) / 3 as lexical,
               (select greatest(1 - (v.embedding <=> wanted), 0) from public.memory_vectors v
                where v.tenant = in_tenant and v.model = model_named and v.memory_id = m.id
              and v.dimension = vector_dims(wanted)) as similarity,
               case when recency_weighs > 0 then
                 private.recency_of(coalesce(m.occurred_at, m.created_at), half_life) end as recency
        from (
          select c.* from private.memories_in(
            in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") c
          where near_ids is null
          union all
          -- By their ids and not by their tenant, which has very many.
          select c.* from unnest(near_ids) n (id) join public.memories c on c.id = n.id
          where near_ids is not null and c.tenant is not distinct from in_tenant
            and private.passes(c, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values")
        ) m
        left join private.each_ranked(by_words) r on r.spot = private.spot_of(m.stream, m.position, m.id)
      ) s
      -- What nothing speaks for but its age or its importance has not been asked for.
      where s.lexical > 0 or s.similarity > 0
    ) s
    where s.score >= at_least
    order by s.score desc, s.created_at desc, s.id
    limit at_most);
end $$;
comment on function private.weigh_many is
  'The best of very many: by the index of words, and beyond a size by the tenant''s own index of vectors.';

create function private.find_memories(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb,
  forms text, of_words integer[], model_named text, wanted vector, few integer, exact integer, size integer,
  meaning_weighs real, recency_weighs real, half_life interval, importance_weighs real,
  at_least real, at_most integer
) returns table (
  id uuid, text text, kind text, of_user text, of_agent text, of_app text, of_run text, workspace_id uuid,
  company_id uuid, role text, speaker text, metadata jsonb, categories text[], importance real, occurred_at timestamptz,
  created_at timestamptz, updated_at timestamptz, expires_at timestamptz, valid_from timestamptz,
  valid_until timestamptz, superseded_by uuid, feedback text, feedback_reason text, version integer, made_by text,
  score float8, lexical float8, turn float8, of_three float8, of_five float8, similarity float8, recency float8,
  among integer
)
language plpgsql stable security definer
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_column
declare
  sought bigint[] := private.terms(in_tenant, forms);
  best private.weighed[];
begin
  perform private.hold_to_tenant(in_tenant);
  if size is null then
    best := private.weigh_few(
      in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values",
      sought, of_words, model_named, wanted, few, meaning_weighs, recency_weighs, half_life, importance_weighs,
      at_least, at_most);
    if best is null then
      select count(*) into size from private.memories_in(
        in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") m;
    end if;
  end if;
  if size is not null then
    best := private.weigh_many(
      in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values",
      sought, of_words, model_named, wanted, few, exact, size, meaning_weighs, recency_weighs, half_life,
      importance_weighs, at_least, at_most);
  end if;
  return query
  select m.id, m.text, m.kind, m.of_user, m.of_agent, m.of_app, m.of_run, m.workspace_id, m.company_id, m.role, m.speaker,
         m.metadata, m.categories, m.importance, m.occurred_at, m.created_at, m.updated_at, m.expires_at, m.valid_from,
         m.valid_until, m.superseded_by, m.feedback, m.feedback_reason, m.version, m.made_by,
         b.score, coalesce(b.lexical, 0), coalesce(b.turn, 0), coalesce(b.of_three, 0), coalesce(b.of_five, 0),
         b.similarity, b.recency, size
  from unnest(best) b join public.memories m on m.id = b.memory_id
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
  acting regprocedure;
begin
  for acting in
    select p.oid from pg_proc p where p.pronamespace = 'private'::regnamespace and p.proname in (
      'add_turns', 'add_facts', 'find_memories')
  loop
    execute format('alter function %s set search_path = %I, pg_temp', acting, home);
  end loop;
end $$;

revoke execute on function private.spot_of, private.rank_by_words, private.recency_of, private.mean_of,
  private.weigh_few, private.rank_many, private.each_ranked, private.weigh_many, private.find_memories,
  private.add_turns, private.add_facts from public;
grant execute on function private.find_memories, private.add_turns, private.add_facts to authenticated, service_role;

reset search_path;
