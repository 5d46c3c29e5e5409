-- put_node
-- Define a node, or set it up anew, and return it; nothing if it is of another type.
insert into memory_nodes (user_id, memory_node_id, memory_type, config)
values (%(user_id)s, %(memory_node_id)s, %(memory_type)s, %(config)s)
on conflict (user_id, memory_node_id) do update set config = excluded.config, updated_at = now()
where memory_nodes.memory_type = excluded.memory_type
returning id, user_id, memory_node_id, memory_type, config, created_at, updated_at

-- get_node
-- One node.
select id, user_id, memory_node_id, memory_type, config, created_at, updated_at from memory_nodes
where user_id = %(user_id)s and memory_node_id = %(memory_node_id)s

-- list_nodes
-- One page of a user's nodes, by their names.
select id, user_id, memory_node_id, memory_type, config, created_at, updated_at from memory_nodes
where user_id = %(user_id)s and memory_node_id > %(after)s
order by memory_node_id limit %(limit)s

-- delete_node
-- Delete a node and all that it keeps.
delete from memory_nodes where user_id = %(user_id)s and memory_node_id = %(memory_node_id)s

-- put_value
-- Insert or replace the value under a key; one whose time was over is another one.
insert into memory_data as d (user_id, memory_node_id, key, value, expires_at)
values (%(user_id)s, %(memory_node_id)s, %(key)s, %(value)s::json, now() + %(ttl)s::interval)
on conflict (user_id, memory_node_id, key) do update
set value = excluded.value, updated_at = now(), expires_at = excluded.expires_at,
    created_at = case when d.expires_at <= now() then now() else d.created_at end
returning key, value, created_at, updated_at, expires_at

-- read_values
-- One page of what a node keeps, by key, without what has had its time; it ends early when it grows too large.
with found as (
  select key, value, created_at, updated_at, expires_at, octet_length(value::text) as size from memory_data
  where user_id = %(user_id)s and memory_node_id = %(memory_node_id)s
    and (expires_at is null or expires_at > now())
    and (%(key)s::text is null or key = %(key)s)
    and (%(prefix)s::text is null or starts_with(key, %(prefix)s))
    and (%(after)s::text is null or key > %(after)s)
  order by key limit %(limit)s + 1
), measured as (
  select *, count(*) over () as found, row_number() over by_key as place, sum(size) over by_key - size as before
  from found window by_key as (order by key)
)
select key, value, created_at, updated_at, expires_at, place < found as is_followed from measured
where place <= %(limit)s and before < %(bytes)s order by key

-- delete_values
-- Delete what a node keeps: one, those with a prefix, or all. What has had its time goes along and is not counted.
with gone as (
  delete from memory_data
  where user_id = %(user_id)s and memory_node_id = %(memory_node_id)s
    and (%(key)s::text is null or key = %(key)s)
    and (%(prefix)s::text is null or starts_with(key, %(prefix)s))
  returning expires_at
)
select count(*) filter (where expires_at is null or expires_at > now()) as forgotten from gone

-- purge_expired
-- Delete what has had its time, a batch at a time.
delete from memory_data where id in (
  select id from memory_data where expires_at <= now() order by expires_at limit %(batch)s for update skip locked
)
