-- Jobs: work that is queued in the transaction that wants it, and done by a worker.
--
-- The queue itself is procrastinate's; its tables come into the schema "jobs" with the server's first
-- start, from the library. Ours is the record: who asked for what, how far it is, how it ended.

create schema jobs;
revoke all on schema jobs from public;
grant usage on schema jobs to authenticated, service_role;

-- Those who may fetch and finish jobs: the worker's login, always, without becoming anybody.
do $$
begin
  create role recollect_queue nologin noinherit;
exception when duplicate_object or unique_violation then
  null; -- roles belong to the whole cluster
end $$;
grant usage on schema jobs, private to recollect_queue;

create table jobs.runs (
  id uuid primary key default gen_random_uuid(),
  ticket bigint unique,
  task text not null check (char_length(task) between 1 and 128),
  user_id uuid references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  asked_by uuid,
  origin text not null default 'request',
  arguments jsonb not null default '{}' check (jsonb_typeof(arguments) = 'object'),
  key text,
  in_order_of text,
  state text not null default 'waiting'
    check (state in ('waiting', 'running', 'succeeded', 'failed', 'cancelled')),
  attempt integer not null default 0,
  failed integer not null default 0,
  fence uuid,
  done bigint not null default 0,
  total bigint,
  checkpoint jsonb,
  result jsonb,
  error text,
  failures jsonb not null default '[]',
  created_at timestamptz not null default now(),
  due_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz
);
create index idx_runs_user_id on jobs.runs (user_id, created_at desc);
create index idx_runs_workspace_id on jobs.runs (workspace_id, created_at desc);
create index idx_runs_created_at on jobs.runs (created_at desc);
create index idx_runs_unfinished on jobs.runs (due_at) where finished_at is null;
create index idx_runs_failed on jobs.runs (created_at desc) where state = 'failed';
create index idx_runs_finished_at on jobs.runs (finished_at) where finished_at is not null;

comment on table jobs.runs is 'Every job: who asked for it, how far it is, how it ended.';
comment on column jobs.runs.ticket is 'Its place in the queue: procrastinate''s id.';
comment on column jobs.runs.user_id is 'Whose rights it has; none: the service''s.';
comment on column jobs.runs.asked_by is 'Who asked: the user, or the admin who acted for them.';
comment on column jobs.runs.failed is 'How many of its attempts failed; the others were interrupted.';
comment on column jobs.runs.fence is
  'Known to the worker that has it now. Who holds an older one can no longer change anything in its name.';
comment on column jobs.runs.checkpoint is 'Where a job that is done in steps goes on after an interruption.';
comment on column jobs.runs.failures is 'Attempts that failed: when, for how long, why.';

call private.close_to_all_but_service('jobs.runs');
-- Users read; they change a job by the functions below. What is secret about it stays so.
grant select (id, task, user_id, workspace_id, asked_by, origin, arguments, state, attempt, done, total,
              result, error, failures, created_at, due_at, started_at, finished_at)
  on jobs.runs to authenticated;
create policy "their user and their workspace see jobs" on jobs.runs for select to authenticated
  using (user_id = (select auth.uid())
         or workspace_id = any ((select private.my_workspaces())::uuid[]));

create function private.is_service() returns boolean
language sql stable set search_path = '' as $$
  -- Also true inside a definer function, where current_user is the owner.
  select current_setting('role') = 'service_role'
$$;

create function private.tenant_of(run jobs.runs) returns uuid
language sql immutable set search_path = '' as $$
  select coalesce(run.workspace_id, run.user_id, '00000000-0000-0000-0000-000000000000')
$$;

create function private.lock_of(run jobs.runs, variadic words text[]) returns text
language sql stable set search_path = '' as $$
  -- A digest, since no index takes a text of any length; with the tenant, so that nobody waits for a stranger.
  select encode(sha256(convert_to(concat_ws(' ', private.tenant_of(run), array_to_string(words, ' ')), 'UTF8')), 'hex')
$$;

create function private.key_lock_of(run jobs.runs) returns text
language sql stable set search_path = '' as $$
  -- The service's jobs and a user's of the same key do not stand in each other's way.
  select private.lock_of(run, 'key', coalesce(run.user_id::text, 'service'), run.task, run.key)
  where run.key is not null
$$;

create function private.queue_run(run jobs.runs) returns bigint
language plpgsql set search_path = jobs, pg_temp
-- However full the queue is, an index has what is asked for here first.
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  tenant text := private.tenant_of(run);
  now_serving integer;
  behind_own integer;
  made bigint[];
begin
  -- Fair queueing. A tenant's jobs are numbered one after another, beginning at the number that is being
  -- served at this moment, and the lowest number is served first: however many jobs one tenant queues,
  -- the next job of another comes after one of them, not after all. The engine serves the highest
  -- priority first, hence the minus.
  select -j.priority into now_serving from procrastinate_jobs j
  where j.status = 'doing' order by j.priority limit 1;
  if now_serving is null then
    select -j.priority into now_serving from procrastinate_jobs j
    where j.status = 'todo' and (j.scheduled_at is null or j.scheduled_at <= now())
    order by j.priority desc limit 1;
  end if;
  select -j.priority + 1 into behind_own from procrastinate_jobs j
  where j.queue_name = tenant and j.status in ('todo', 'doing') order by j.priority limit 1;
  made := procrastinate_defer_jobs_v1(array[row(
    tenant, 'run', -greatest(coalesce(now_serving, 0), coalesce(behind_own, 0), 0),
    case when run.in_order_of is not null then private.lock_of(run, 'order', run.in_order_of) end,
    private.key_lock_of(run),
    jsonb_build_object('run', run.id),
    case when run.due_at > now() then run.due_at end
  )::procrastinate_job_to_defer_v1]);
  return made[1];
end $$;
comment on function private.queue_run is 'Put a run into the queue and say its ticket.';

create function private.enqueue_job(
  task text, arguments jsonb default '{}', key text default null, due timestamptz default null,
  for_user uuid default null, for_workspace uuid default null, in_order_of text default null,
  origin text default 'request'
) returns uuid
language plpgsql security definer set search_path = jobs, pg_temp as $$
declare
  wanted jobs.runs;
  waiting uuid;
begin
  if not private.is_service() then
    if auth.uid() is null then
      raise exception 'Sign in to queue a job.' using errcode = 'RC401';
    end if;
    if for_user <> auth.uid()
      or (for_workspace is not null
          and for_workspace <> all (private.my_workspaces('{owner,admin,reviewer,member}')))
    then
      raise exception 'A job is queued for oneself, or in a workspace one may write in.' using errcode = 'RC403';
    end if;
    for_user := auth.uid();
    origin := 'request';
  end if;
  for attempt in 1 .. 20 loop
    begin
      insert into runs (task, user_id, workspace_id, asked_by, origin, arguments, key, in_order_of, due_at)
      values (enqueue_job.task, for_user, for_workspace,
              coalesce((auth.jwt() ->> 'act')::uuid, auth.uid()), enqueue_job.origin,
              coalesce(enqueue_job.arguments, '{}'), enqueue_job.key, enqueue_job.in_order_of,
              coalesce(due, now()))
      returning * into wanted;
      update runs set ticket = private.queue_run(wanted) where id = wanted.id;
      return wanted.id;
    exception when unique_violation then
      if enqueue_job.key is null or origin = 'celery' then
        raise;
      end if;
      select r.id into waiting from procrastinate_jobs j join runs r on r.ticket = j.id
      where j.queueing_lock = private.key_lock_of(wanted) and j.status = 'todo';
      if found then
        return waiting;
      end if;
      -- It has begun meanwhile: then there is room for the next one.
    end;
  end loop;
  raise exception 'Others queue the same job at this moment; try again.' using errcode = 'RC409';
end $$;
comment on function private.enqueue_job is
  'Queue a job in this transaction. With a key, the one that waits already is returned instead.';
create function private.begin_run(run uuid, held_ticket bigint) returns jobs.runs
language sql security definer set search_path = '' as $$
  -- From here on nobody else can change anything in its name. A ticket that it had before, and lost, is void.
  update jobs.runs
  set state = 'running', fence = gen_random_uuid(), attempt = attempt + 1, started_at = clock_timestamp()
  where id = run and ticket = held_ticket and state in ('waiting', 'running')
  returning *
$$;
comment on function private.begin_run is 'Take a job, or nothing if it was cancelled or has been done.';

create function private.hold_run(run uuid, held_fence uuid) returns void
language plpgsql security definer set search_path = '' as $$
begin
  -- Locked until the transaction ends, so that nobody takes the job over in the middle of a step.
  perform from jobs.runs r where r.id = run and r.fence = held_fence and r.state = 'running' for update;
  if not found then
    raise exception 'The job was cancelled, or another worker has it now.' using errcode = 'RC410';
  end if;
end $$;

create function private.advance_run(run uuid, held_fence uuid, now_done bigint, of_total bigint, reached jsonb)
returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.hold_run(run, held_fence);
  update jobs.runs set done = now_done, total = coalesce(of_total, total),
                       checkpoint = coalesce(reached, checkpoint)
  where id = run;
end $$;

create function private.finish_run(run uuid, held_fence uuid, counts jsonb) returns void
language plpgsql security definer set search_path = '' as $$
begin
  perform private.hold_run(run, held_fence);
  with finished as (
    update jobs.runs
    set state = 'succeeded', result = counts, error = null, fence = null, finished_at = clock_timestamp()
    where id = run returning ticket
  )
  delete from jobs.procrastinate_jobs t using finished f where t.id = f.ticket;
end $$;
comment on function private.finish_run is
  'Mark a job as done and take it out of the queue, in the transaction of its last effect.';

create function private.run_to_change(run uuid) returns jobs.runs
language plpgsql security definer set search_path = '' as $$
declare
  found_run jobs.runs;
begin
  select * into found_run from jobs.runs r where r.id = run and (
    private.is_service() or r.user_id = auth.uid()
    or r.workspace_id = any (private.my_workspaces('{owner,admin}'))
  );
  if not found then
    raise exception 'There is no such job, or it is not yours to change.' using errcode = 'RC404';
  end if;
  return found_run;
end $$;

create function private.cancel_run(run uuid) returns void
language plpgsql security definer set search_path = jobs, pg_temp as $$
declare
  found_run runs := private.run_to_change(run);
begin
  if found_run.state not in ('waiting', 'running') then
    raise exception 'The job has ended already.' using errcode = 'RC409';
  end if;
  -- The ticket first, as whoever fetches it does: the other way round the two would wait for each other.
  perform procrastinate_cancel_job_v1(found_run.ticket, true, true);
  -- Without its fence a running job can do no more, even where its worker does not hear of it.
  update runs set state = 'cancelled', fence = null, finished_at = clock_timestamp()
  where id = run and state in ('waiting', 'running');
  if not found then
    raise exception 'The job has ended already.' using errcode = 'RC409';
  end if;
end $$;

create function private.retry_run(run uuid) returns void
language plpgsql security definer set search_path = jobs, pg_temp as $$
declare
  found_run runs := private.run_to_change(run);
begin
  if found_run.state not in ('failed', 'cancelled') then
    raise exception 'Only a job that failed or was cancelled can be tried again.' using errcode = 'RC409';
  end if;
  found_run.due_at := now();
  begin
    update runs set state = 'waiting', attempt = 0, failed = 0, error = null, finished_at = null, due_at = now(),
                    ticket = private.queue_run(found_run)
    where id = run and state = found_run.state;
    if not found then
      raise exception 'Somebody else was first; look again.' using errcode = 'RC409';
    end if;
  exception when unique_violation then
    raise exception 'A job with the same key is waiting already.' using errcode = 'RC409';
  end;
end $$;

create function private.sweep_jobs(silent_seconds float8) returns setof uuid
language plpgsql security definer set search_path = jobs, pg_temp as $$
begin
  return query with swept as (
    select r.id, r.ticket from procrastinate_jobs j join runs r on r.ticket = j.id
    -- Nobody could say that they live while Postgres was down.
    where pg_postmaster_start_time() < now() - make_interval(secs => silent_seconds)
      and j.status = 'doing' and not exists (
      select from procrastinate_workers w
      where w.id = j.worker_id and w.last_heartbeat >= now() - make_interval(secs => silent_seconds)
    )
    -- A worker that is frozen in the middle of a step holds its job until Postgres hangs up on it. Who fetched
    -- that job would wait as long, and so would everything behind it.
    for update of r skip locked
  ), back as (
    update procrastinate_jobs j
    -- Without their keys: several of one key may have been begun, and but one of them could wait with it.
    set status = 'todo', attempts = attempts + 1, scheduled_at = null, worker_id = null, abort_requested = false,
        queueing_lock = null
    from swept s where j.id = s.ticket
  ), gone as (
    -- Nothing is to be done for it any more.
    delete from procrastinate_jobs j
    where j.status = 'doing' and j.worker_id is null and not exists (select from runs r where r.ticket = j.id)
  )
  select s.id from swept s;
end $$;
comment on function private.sweep_jobs is 'Give the jobs of workers that have fallen silent back to the queue.';

create function private.forget_ticket() returns trigger
language plpgsql security definer set search_path = jobs, pg_temp as $$
begin
  -- A user, or a workspace, is gone, and with it what it wanted.
  delete from procrastinate_jobs j where j.id = old.ticket and j.status = 'todo';
  return null;
end $$;
create trigger forget_ticket after delete on jobs.runs
  for each row when (old.ticket is not null and old.state = 'waiting')
  execute function private.forget_ticket();

revoke execute on function private.tenant_of, private.lock_of, private.key_lock_of, private.sweep_jobs from public;
grant execute on function private.sweep_jobs to recollect_queue;
revoke execute on function private.is_service, private.queue_run, private.enqueue_job, private.begin_run,
  private.hold_run,
  private.advance_run, private.finish_run, private.run_to_change, private.cancel_run, private.retry_run,
  private.forget_ticket from public;
grant execute on function private.is_service to anon, authenticated, service_role;
grant execute on function private.begin_run to recollect_queue, service_role;
grant execute on function private.enqueue_job, private.hold_run, private.advance_run, private.finish_run,
  private.cancel_run, private.retry_run to authenticated, service_role;

-- The schedule: which tick of a job's clock was the last to be honoured.
create table jobs.schedules (
  job text not null check (char_length(job) between 1 and 128),
  workspace_id uuid references public.workspaces (id) on delete cascade,
  cron text check (char_length(cron) <= 200),
  last_tick timestamptz,
  last_run uuid,
  has_run boolean not null default false,
  updated_at timestamptz not null default now(),
  unique nulls not distinct (job, workspace_id)
);
create index idx_schedules_workspace_id on jobs.schedules (workspace_id);
call private.protect_shared_in_workspace('jobs.schedules', 'workspace_id', '{owner,admin}');
revoke insert, update on jobs.schedules from authenticated;
grant insert (job, workspace_id, cron), update (cron, updated_at) on jobs.schedules to authenticated;

comment on table jobs.schedules is 'When a job last came due; per workspace where that keeps its own hours.';
comment on column jobs.schedules.cron is 'The workspace''s own hours; none: those of the settings.';

create function private.restart_clock() returns trigger
language plpgsql set search_path = '' as $$
begin
  -- New hours begin to count now: by them, nothing was missed.
  new.last_tick := null;
  new.has_run := false;
  return new;
end $$;
revoke execute on function private.restart_clock from public;
create trigger restart_clock before update on jobs.schedules
  for each row when (old.cron is distinct from new.cron) execute function private.restart_clock();
