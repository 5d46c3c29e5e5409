-- list_entries
-- One page of a user's entries in a namespace, by key.
select id, user_id, namespace, key, value, created_at, updated_at from user_memory
where user_id = %(user_id)s and namespace = %(namespace)s and key > %(after)s
order by key limit %(limit)s

-- list_all_entries
-- One page of a user's entries in all namespaces, by namespace and key.
select id, user_id, namespace, key, value, created_at, updated_at from user_memory
where user_id = %(user_id)s and (namespace, key) > (%(after_namespace)s, %(after_key)s)
order by namespace, key limit %(limit)s

-- list_namespaces
-- One page of the namespaces that a user has entries in.
select namespace, count(*)::int as entries, max(updated_at) as updated_at from user_memory
where user_id = %(user_id)s and namespace > %(after)s
group by namespace order by namespace limit %(limit)s

-- get_entry
-- One entry.
select id, user_id, namespace, key, value, created_at, updated_at from user_memory
where user_id = %(user_id)s and namespace = %(namespace)s and key = %(key)s

-- put_entry
-- Insert or replace one entry and return it.
insert into user_memory (user_id, namespace, key, value)
values (%(user_id)s, %(namespace)s, %(key)s, %(value)s)
on conflict (user_id, namespace, key) do update set value = excluded.value, updated_at = now()
returning id, user_id, namespace, key, value, created_at, updated_at

-- lock_entry
-- Make sure that an entry is there, and keep other writers out until the transaction ends.
insert into user_memory (user_id, namespace, key, value)
values (%(user_id)s, %(namespace)s, %(key)s, %(value)s)
on conflict (user_id, namespace, key) do update set key = excluded.key
returning value

-- delete_entry
-- Delete one entry.
delete from user_memory where user_id = %(user_id)s and namespace = %(namespace)s and key = %(key)s

-- delete_entries
-- Delete a user's entries, in one namespace or in all.
delete from user_memory
where user_id = %(user_id)s and (%(namespace)s::text is null or namespace = %(namespace)s)

-- purge_namespace
-- Delete entries of a namespace that nobody has touched for too long, a batch at a time.
delete from user_memory where id in (
  select id from user_memory
  where namespace = %(namespace)s and updated_at < now() - %(age)s::interval
  limit %(batch)s for update skip locked
)

-- entries_to_reseal
-- A batch of entries whose stored form is not the one their namespace should have now.
select id, user_id, namespace, key, value from user_memory
where id > %(after)s and value is not null
  and (case when namespace = any (%(sealed_namespaces)s::text[])
            then not starts_with(value, %(current_mark)s)
            else starts_with(value, 'sealed:') end)
order by id limit %(batch)s for update

-- rewrite_value
-- Store the same value in another form; nothing has changed for its owner.
update user_memory set value = %(value)s where id = %(id)s

-- whose
-- Whom the transaction acts for.
select auth.uid() as id
