-- find_extension
-- Whether an extension can be installed, and whether it is.
select default_version, installed_version from pg_available_extensions where name = %(name)s

-- read_clock
-- The database's time.
select extract(epoch from clock_timestamp())::float8 as seconds

-- find_roles
-- Those of the named roles that exist.
select rolname::text as name from pg_roles where rolname = any (%(names)s::text[])

-- find_login
-- What a login may do by itself.
select rolcanlogin as may_sign_in, rolsuper as superuser, rolbypassrls as bypassrls, rolcreaterole as createrole
from pg_roles where rolname = %(name)s

-- find_powers
-- Roles beyond row security that a login is a member of, directly or through others, and through which.
with recursive reached as (
  select m.roleid, m.member from pg_auth_members m
  where m.member = (select oid from pg_roles where rolname = %(name)s)
  union
  select m.roleid, m.member from pg_auth_members m join reached r on r.roleid = m.member
)
select power.rolname::text as power, through.rolname::text as through
from reached join pg_roles power on power.oid = reached.roleid join pg_roles through on through.oid = reached.member
where (power.rolsuper or power.rolbypassrls or power.rolname = 'service_role')
  and power.rolname <> all (%(allowed)s::text[])
order by 1, 2

-- list_tables
-- Our tables, with the names of their policies.
select t.name, t.is_protected, t.policies from (
  select format('%%s.%%s', n.nspname, c.relname) as name, n.nspname as schema, c.relrowsecurity as is_protected,
         array(select p.polname::text from pg_policy p where p.polrelid = c.oid order by 1) as policies
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p')
) t
where t.schema = 'private' or t.name = any (%(names)s::text[])
order by 1

-- list_open_views
-- Views that read our tables, directly or through other views, with their owner's rights.
with recursive ours as (
  select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = 'private' or format('%%s.%%s', n.nspname, c.relname) = any (%(names)s::text[])
  union
  select r.ev_class from pg_depend d join pg_rewrite r on r.oid = d.objid join ours on ours.oid = d.refobjid
  where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass
)
select format('%%I.%%I', n.nspname, c.relname) as name
from ours join pg_class c using (oid) join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'm' or (
  c.relkind = 'v' and not exists (
    select from pg_options_to_table(c.reloptions) o
    where o.option_name = 'security_invoker' and o.option_value::boolean
  )
)
order by 1

-- find_queue
-- Whether the queue's tables are there: the server makes them, not a migration.
select to_regclass('jobs.procrastinate_jobs') is not null as is_there

-- queue_state
-- Who works, and what has been left lying.
select (select count(*)::int from jobs.procrastinate_workers
        where last_heartbeat > now() - interval '1 minute') as workers,
       (select count(*)::int from jobs.runs
        where finished_at is null and state = 'waiting' and due_at < now() - interval '1 minute') as late,
       (select count(*)::int from jobs.runs where state = 'failed') as failed,
       (select count(*)::int from events.log
        where position is null and happened_at < now() - interval '1 minute') as untold
