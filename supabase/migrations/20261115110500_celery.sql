-- Celery: a message becomes a job, and stays that one job however often it is delivered.

create unique index idx_runs_celery on jobs.runs (task, key) where origin = 'celery';

create function private.forward_job(wanted_task text, with_arguments jsonb, message text) returns uuid
language plpgsql security definer set search_path = jobs, pg_temp as $$
declare
  wanted jobs.runs;
  known uuid;
begin
  -- Whoever delivers the same message at this moment is waited for.
  insert into runs (task, arguments, key, origin) values (wanted_task, with_arguments, message, 'celery')
  on conflict (task, key) where origin = 'celery' do nothing
  returning * into wanted;
  if found then
    update runs set ticket = private.queue_run(wanted) where id = wanted.id;
    return wanted.id;
  end if;
  select r.id into strict known from runs r
  where r.task = wanted_task and r.key = message and r.origin = 'celery';
  return known;
end $$;
comment on function private.forward_job is
  'Queue a job for a message, or say the one that it led to before, whatever has become of it.';
revoke execute on function private.forward_job from public;
grant execute on function private.forward_job to service_role;
