-- How a row is protected. Every table is put under one of these shapes by one call, so that a policy
-- is written once, and the catalogue test can tell what it should find.

create schema private;
revoke all on schema private from public;
grant usage on schema private to anon, authenticated, service_role;

-- Those who may turn a credential into claims: the server's own logins, which `recollect migrate` makes.
do $$
begin
  create role recollect_gate nologin noinherit;
exception when duplicate_object or unique_violation then
  null; -- roles belong to the whole cluster
end $$;
grant usage on schema private to recollect_gate;

create procedure private.close_to_all_but_service(target regclass)
language plpgsql as $$
begin
  execute format('alter table %s enable row level security', target);
  -- Supabase grants everything in "public" to everybody by default.
  execute format('revoke all on table %s from public, anon, authenticated', target);
  execute format('grant select, insert, update, delete on table %s to service_role', target);
  execute format('create policy "the service does everything" on %s to service_role using (true) with check (true)', target);
end $$;
comment on procedure private.close_to_all_but_service is
  'Shape: nobody but the service. The other shapes start from it.';

create procedure private.open_to(target regclass, verb text, using_clause text)
language plpgsql as $$
declare
  clause text := case verb
    when 'insert' then format('with check (%s)', using_clause)
    when 'update' then format('using (%s) with check (%s)', using_clause, using_clause)
    else format('using (%s)', using_clause)
  end;
begin
  execute format('create policy %I on %s for %s to authenticated %s',
                 format('who may %s', verb), target, verb, clause);
end $$;

create procedure private.protect_owned_by_user(target regclass, owner_column name default 'user_id')
language plpgsql as $$
declare
  verb text;
begin
  call private.close_to_all_but_service(target);
  execute format('grant select, insert, update, delete on table %s to authenticated', target);
  foreach verb in array array['select', 'insert', 'update', 'delete'] loop
    call private.open_to(target, verb, format('%I = (select auth.uid())', owner_column));
  end loop;
end $$;
comment on procedure private.protect_owned_by_user is
  'Shape: a row belongs to one user, who alone reads and writes it.';
