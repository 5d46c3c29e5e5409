-- Adding memories in one statement, and finding them again.
--
-- These functions ask once whose memories a call is about, and then read and write as their owner. Under row security
-- an operator on arrays may not look at rows before the policies have, so that no index would serve it; and the
-- policies, which allow for several tenants, have Postgres choose an index for several where there is one.

set search_path = public, extensions;

create function private.hold_to_tenant(wanted uuid, roles text[] default null) returns void
language plpgsql stable set search_path = '' as $$
begin
  if wanted is distinct from auth.uid() and not private.is_service()
    and (wanted = any (private.my_workspaces(roles))) is not true
  then
    raise exception 'There is no such workspace, or you may not do that in it.' using errcode = 'RC404';
  end if;
end $$;
comment on function private.hold_to_tenant is 'An error unless these are the caller''s own memories, or a workspace''s of theirs.';

create function private.term(in_tenant uuid, word text) returns bigint
language sql immutable parallel safe as $$
  select ('x' || left(md5(in_tenant::text || word), 16))::bit(64)::bigint
$$;
comment on function private.term is 'A word as a number, which is another one for every tenant.';

create function private.terms(in_tenant uuid, words text) returns bigint[]
language sql immutable parallel safe as $$
  select array(select private.term(in_tenant, w.word) from unnest(string_to_array(nullif(words, ''), ' ')) w (word))
$$;

create function private.hold_stream(
  for_owner uuid, in_workspace uuid, user_named text, agent_named text, app_named text, run_named text
) returns public.memory_streams
language sql volatile set search_path = '' as $$
  insert into public.memory_streams as s (owner_id, workspace_id, of_user, of_agent, of_app, of_run)
  values (for_owner, in_workspace, user_named, agent_named, app_named, run_named)
  on conflict (tenant, of_user, of_agent, of_app, of_run) do update set turns = s.turns
  returning s.*
$$;
comment on function private.hold_stream is 'The stream, made if missing, held until the transaction ends.';

create function private.bury_expired(in_tenant uuid, said bytea[]) returns void
language sql volatile set search_path = '' as $$
  update public.memories m set deleted_at = now(), event = 'DELETE', reason = 'expired, and said again'
  where m.tenant = in_tenant and m.digest = any (said) and m.deleted_at is null and m.valid_until is null
    and m.expires_at <= now()
$$;
comment on function private.bury_expired is 'What has expired does not stand in the way of its being said again.';

create function private.add_turns(
  in_workspace uuid, user_named text, agent_named text, app_named text, run_named text,
  texts text[], roles text[], speakers text[], digests bytea[], words text[], sizes integer[], model_named text, dimension_named smallint, vectors text[],
  described jsonb, in_categories text[], weighing real, said_at timestamptz[], until timestamptz, because text
) returns table (nth bigint, id uuid, event text)
language plpgsql security definer
-- Planned once, and not for the few rows that there may be when that is.
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_column
declare
  for_owner uuid := case when in_workspace is null then auth.uid() end;
  lane public.memory_streams;
  fresh integer;
begin
  perform private.hold_to_tenant(coalesce(in_workspace, for_owner), '{owner,admin,reviewer,member}');
  lane := private.hold_stream(for_owner, in_workspace, user_named, agent_named, app_named, run_named);
  perform private.bury_expired(lane.tenant, digests);
  perform private.note_model(model_named);
  return query
  with given as (
    select * from unnest(texts, roles, speakers, digests, words, sizes, vectors, said_at) with ordinality
      as g (said, role, speaker, digest, terms, tokens, vector, occurred_at, nth)
  ), looked_up as materialized (
    select g.*, (select m.id from public.memories m where m.tenant = lane.tenant and m.digest = g.digest
                 and m.deleted_at is null and m.valid_until is null) as known
    from given g
  ), new_ones as materialized (
    select l.*, private.new_id() as id, lane.turns + row_number() over (order by l.nth) as place from looked_up l
    where l.known is null
  ), stored as (
    insert into public.memories
      (id, owner_id, workspace_id, of_user, of_agent, of_app, of_run, kind, role, speaker, text, metadata, categories,
       importance, terms, tokens, stream, position, digest, occurred_at, expires_at, actor, reason)
    select n.id, for_owner, in_workspace, user_named, agent_named, app_named, run_named, 'turn', n.role, n.speaker,
           n.said, described, in_categories, weighing, array(select private.term(lane.tenant, w.word) from unnest(string_to_array(nullif(n.terms, ''), ' ')) w (word)), n.tokens, lane.id, n.place, n.digest, n.occurred_at,
           until, coalesce((auth.jwt() ->> 'act')::uuid, auth.uid()), because
    from new_ones n
  ), placed as (
    insert into public.memory_vectors (memory_id, owner_id, workspace_id, model, dimension, embedding)
    select n.id, for_owner, in_workspace, model_named, dimension_named, n.vector::vector
    from new_ones n where n.vector is not null
  )
  select n.nth, n.id, 'ADD' from new_ones n
  union all select l.nth, l.known, 'NONE' from looked_up l where l.known is not null
  order by 1;
  select count(*) into fresh from public.memories m where m.stream = lane.id and m.position > lane.turns;
  update public.memory_streams s set turns = s.turns + fresh where s.id = lane.id and fresh > 0;
end $$;
comment on function private.add_turns is
  'Store turns that follow one another. What the same request has stored before stays, and is named.';

create function private.add_facts(
  in_workspace uuid, user_named text, agent_named text, app_named text, run_named text,
  texts text[], digests bytea[], slots bytea[], words text[], sizes integer[], model_named text, dimension_named smallint, vectors text[],
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
    select * from unnest(texts, digests, slots, words, sizes, vectors, weights) with ordinality
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
      (id, owner_id, workspace_id, of_user, of_agent, of_app, of_run, kind, text, metadata, categories, importance,
       terms, tokens, digest, slot, occurred_at, expires_at, valid_from, valid_until, superseded_by, actor, reason, made_by)
    values
      (stored, for_owner, in_workspace, user_named, agent_named, app_named, run_named, 'fact', fact.said, described,
       in_categories, fact.weight, private.terms(lane.tenant, fact.terms), fact.tokens, fact.digest, fact.slot, said_at,
       until, told_at, newer.valid_from, newer.id, coalesce((auth.jwt() ->> 'act')::uuid, auth.uid()), because, made_with);
    if fact.vector is not null then
      insert into public.memory_links (memory_id, other_id, owner_id, workspace_id, similarity)
      select stored, m.id, for_owner, in_workspace, 1 - (v.embedding <=> fact.vector::vector)
      from public.memory_vectors v
      join private.memories_in(
        lane.tenant, user_named, agent_named, app_named, of_nobody_else, false, false, null, null) m on m.id = v.memory_id
      where v.model = model_named and v.dimension = dimension_named and m.kind = 'fact' and m.id <> stored
        and m.of_user is not distinct from user_named and m.of_agent is not distinct from agent_named
        and m.of_app is not distinct from app_named
        and 1 - (v.embedding <=> fact.vector::vector) >= nearly
      order by v.embedding <=> fact.vector::vector limit 5;
      insert into public.memory_vectors (memory_id, owner_id, workspace_id, model, dimension, embedding)
      values (stored, for_owner, in_workspace, model_named, dimension_named, fact.vector::vector);
    end if;
    return query select fact.nth, stored, 'ADD', null::text;
  end loop;
end $$;
comment on function private.add_facts is
  'Store facts of one entity: an identical one stays, one that it contradicts is superseded, near ones are linked.';

-- Words --------------------------------------------------------------------------------------------

create function private.words_in_few(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb, words text[], few integer
) returns table (word integer, times integer, memory_id uuid, stream bigint, place integer, length integer)
language plpgsql stable security definer
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_column
declare
  sought bigint[] := array(
    select private.term(in_tenant, w.word) from unnest(words) with ordinality w (word, nth) order by w.nth);
begin
  perform private.hold_to_tenant(in_tenant);
  return query
  with scope as materialized (
    select m.id, m.stream, m.position, m.terms, cardinality(m.terms) as length from private.memories_in(
      in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") m
    limit few + 1
  )
  select null::integer, count(*)::integer, null::uuid, null::bigint, null::integer, coalesce(sum(s.length), 0)::integer
  from scope s
  union all
  select w.nth::integer, cardinality(array_positions(s.terms, w.term)), s.id, s.stream, s.position, s.length
  from scope s join unnest(sought) with ordinality w (term, nth) on w.term = any (s.terms);
end $$;
comment on function private.words_in_few is
  'How often each of these words is said in which memory, read one by one. The row without a word has the number of '
  'memories in scope, no more than one above few, and of their words.';

create function private.words_in_many(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb,
  words text[], sampled integer, known_size integer, best integer
) returns table (word integer, times integer, memory_id uuid, stream bigint, place integer, length integer)
language plpgsql stable security definer
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_column
declare
  sought bigint[] := array(
    select private.term(in_tenant, w.word) from unnest(words) with ordinality w (word, nth) order by w.nth);
  usual float8;
begin
  perform private.hold_to_tenant(in_tenant);
  if known_size is null then
    select count(*) into known_size from private.memories_in(
      in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") m;
  end if;
  select avg(cardinality(f.terms)) into usual from (
    select m.terms from private.memories_in(
      in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") m
    limit sampled) f;
  return query select null::integer, known_size, null::uuid, null::bigint, null::integer, (usual * known_size)::integer;
  return query
  with pairs as materialized (
    select w.nth::integer as word, cardinality(array_positions(m.terms, w.term)) as times, m.id, m.stream,
           m.position as place, cardinality(m.terms) as length
    from unnest(sought) with ordinality w (term, nth)
    cross join lateral (
      select c.* from private.memories_in(
        in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values") c
      where c.terms @> array[w.term]) m
  ), found_in as (
    select p.word, count(*) as memories, ln(1 + (known_size - count(*) + 0.5) / (count(*) + 0.5)) as weight
    from pairs p group by p.word
  ), most_telling as (
    -- Of very many only the most promising go on, by the weight of their words.
    select p.id from pairs p join found_in f using (word) group by p.id
    order by sum(f.weight * p.times / (p.times + 1.2)) desc limit best
  )
  select f.word, -f.memories::integer, null::uuid, null::bigint, null::integer, null::integer from found_in f
  union all
  select p.word, p.times, p.id, p.stream, p.place, p.length from pairs p
  where p.id in (select t.id from most_telling t);
end $$;
comment on function private.words_in_many is
  'As words_in_few, by the index of words, and of the most promising memories only: the rows without a memory say, as '
  'negative numbers, how many have each word.';

-- Meaning, and all together -----------------------------------------------------------------------

create function private.index_for(in_tenant uuid, model_named text) returns text
language sql immutable set search_path = '' as $$
  select 'idx_memory_vectors_near_' || left(md5(in_tenant::text || ' ' || model_named), 24)
$$;
comment on function private.index_for is 'The name of a large tenant''s own index of vectors.';

create function private.is_indexed(in_tenant uuid, model_named text) returns boolean
language sql stable set search_path = '' as $$
  select exists (
    select from pg_catalog.pg_index i
    where i.indexrelid = to_regclass('public.' || private.index_for(in_tenant, model_named)) and i.indisvalid)
$$;

create function private.nearest_by_index(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb,
  model_named text, wanted vector, best integer
) returns table (memory_id uuid, similarity float8)
language plpgsql stable as $$
begin
  -- Only with the tenant and the model spelled out does Postgres see that their own index serves.
  return query execute format($sql$
    select v.memory_id, 1 - ((v.embedding::vector(%1$s)) <=> $1)
    from public.memory_vectors v join private.memories_in(
      %2$L, $2, $3, $4, $5, $6, $7, $8, $9) m on m.id = v.memory_id
    where v.tenant = %2$L and v.model = %3$L and v.dimension = %1$s
    order by (v.embedding::vector(%1$s)) <=> $1 limit $10
  $sql$, vector_dims(wanted), in_tenant, model_named)
  using wanted, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values", best;
end $$;

-- Kept as functions, and so as large as they say: for an array Postgres would count on ten.
create function private.scores_of(ids uuid[], scores real[]) returns table (id uuid, lexical real)
language sql immutable strict rows 1000 set search_path = '' as $$ select * from unnest(ids, scores) $$;
create function private.scores_at(streams bigint[], places integer[], scores real[])
returns table (stream bigint, place integer, lexical real)
language sql immutable strict rows 1000 set search_path = '' as $$ select * from unnest(streams, places, scores) $$;
revoke execute on function private.scores_of, private.scores_at from public;

create function private.find_memories(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text,
  with_expired boolean, with_superseded boolean, passing jsonpath, "values" jsonb,
  model_named text, wanted vector, by_index boolean, best integer,
  ids uuid[], id_scores real[], streams bigint[], places integer[], place_scores real[],
  words_weigh real, meaning_weighs real, recency_weighs real, half_life interval, importance_weighs real,
  at_least real, at_most integer
) returns table (
  id uuid, text text, kind text, of_user text, of_agent text, of_app text, of_run text, workspace_id uuid, role text,
  speaker text, metadata jsonb, categories text[], importance real, occurred_at timestamptz, created_at timestamptz,
  updated_at timestamptz, expires_at timestamptz, valid_from timestamptz, valid_until timestamptz, superseded_by uuid,
  feedback text, feedback_reason text, version integer, made_by text, stream bigint, "position" integer,
  score float8, lexical real, similarity float8, recency float8
)
language plpgsql stable security definer
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
#variable_conflict use_column
declare
  near_ids uuid[];
begin
  perform private.hold_to_tenant(in_tenant);
  if by_index and private.is_indexed(in_tenant, model_named) then
    perform set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', '200', true);
    near_ids := array(
      select n.memory_id from private.nearest_by_index(
        in_tenant, by_user, by_agent, by_app, by_run, with_expired, with_superseded, passing, "values",
        model_named, wanted, best) n
    );
    -- Where so little passes the filter that the index has not found enough, all are compared after all.
    near_ids := case when cardinality(near_ids) < best then null else array(
      select n.id from unnest(near_ids || ids) n (id)
      union
      select m.id from unnest(streams, places) as p (stream, place)
      join public.memories m on m.stream = p.stream and m.position = p.place) end;
  end if;
  return query
  with weighed as materialized (
    select m.id, m.created_at, m.importance, coalesce(i.lexical, p.lexical, 0)::real as lexical,
           -- Looked up one by one: so it takes as long for the first searches in a new database, of which Postgres
           -- knows nothing yet, as for all others.
           (select greatest(1 - (v.embedding <=> wanted), 0) from public.memory_vectors v
            where v.tenant = in_tenant and v.model = model_named and v.memory_id = m.id
              and v.dimension = vector_dims(wanted)) as similarity,
           case when recency_weighs > 0 then
             -- No smaller than what a number can hold.
             power(0.5::float8, least(greatest(extract(epoch from now() - coalesce(m.occurred_at, m.created_at)), 0)::float8
                                      / extract(epoch from half_life)::float8, 1000))
           end as recency
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
    left join private.scores_of(ids, id_scores) i on i.id = m.id
    left join private.scores_at(streams, places, place_scores) p on p.stream = m.stream and p.place = m.position
  ), best_ones as materialized (
    select w.*, (words_weigh * w.lexical + meaning_weighs * coalesce(w.similarity, 0)
                 + recency_weighs * coalesce(w.recency, 0) + importance_weighs * coalesce(w.importance, 0))
                / nullif(words_weigh + meaning_weighs + recency_weighs + importance_weighs, 0) as score
    from weighed w
    -- What nothing speaks for but its age or its importance has not been asked for.
    where w.lexical > 0 or w.similarity > 0
    order by score desc, w.created_at desc, w.id
    limit at_most
  )
  select m.id, m.text, m.kind, m.of_user, m.of_agent, m.of_app, m.of_run, m.workspace_id, m.role, m.speaker,
         m.metadata, m.categories, m.importance, m.occurred_at, m.created_at, m.updated_at, m.expires_at, m.valid_from,
         m.valid_until, m.superseded_by, m.feedback, m.feedback_reason, m.version, m.made_by, m.stream, m.position,
         b.score, b.lexical, b.similarity, b.recency
  from best_ones b join public.memories m on m.id = b.id
  where b.score >= at_least
  order by b.score desc, m.created_at desc, m.id;
end $$;
comment on function private.find_memories is
  'The best memories: those near in meaning and those with the words, weighed together.';

create function private.delete_memories(
  in_tenant uuid, by_user text, by_agent text, by_app text, by_run text, passing jsonpath, "values" jsonb, because text
) returns integer
language plpgsql security definer
set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
  gone integer;
begin
  perform private.hold_to_tenant(in_tenant, '{owner,admin,reviewer,member}');
  update public.memories d set deleted_at = now(), event = 'DELETE', reason = because
  where d.id = any (array(
    select m.id from private.memories_in(in_tenant, by_user, by_agent, by_app, by_run, true, true, passing, "values") m));
  get diagnostics gone = row_count;
  return gone;
end $$;
comment on function private.delete_memories is 'Leave a tombstone for every memory in scope; says for how many.';

-- A function that acts as its owner looks nothing up but where we say; the vectors' type is where the project has it.
do $$
declare
  home name := (
    select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
  acting regprocedure;
begin
  for acting in
    select p.oid from pg_proc p where p.pronamespace = 'private'::regnamespace and p.proname in (
      'add_turns', 'add_facts', 'words_in_few', 'words_in_many', 'find_memories', 'delete_memories')
  loop
    execute format('alter function %s set search_path = %I, pg_temp', acting, home);
  end loop;
end $$;

revoke execute on function private.bury_expired, private.hold_to_tenant, private.delete_memories, private.term, private.terms, private.hold_stream, private.add_turns, private.add_facts, private.words_in_few, private.words_in_many,
  private.index_for, private.is_indexed, private.nearest_by_index, private.find_memories from public;
grant execute on function private.delete_memories, private.term, private.terms, private.hold_stream, private.add_turns, private.add_facts, private.words_in_few, private.words_in_many,
  private.index_for, private.is_indexed, private.nearest_by_index, private.find_memories to authenticated, service_role;

reset search_path;
