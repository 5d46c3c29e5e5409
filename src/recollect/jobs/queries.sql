-- installed_engine
-- Up to which of the library's own migrations its tables are, if they are there.
select obj_description(to_regclass('jobs.procrastinate_jobs'), 'pg_class') as version

-- end_ticket
-- Take a job out of the queue, if this worker still has it.
delete from jobs.procrastinate_jobs
where id = %(id)s and worker_id = %(worker_id)s and attempts = %(attempts)s and status = 'doing'

-- requeue_ticket
-- Give a job back to the queue, if this worker still has it.
update jobs.procrastinate_jobs j
set status = 'todo', attempts = attempts + 1, scheduled_at = %(at)s::timestamptz, worker_id = null,
    abort_requested = false, queueing_lock = case when not exists (
      select from jobs.procrastinate_jobs o where o.queueing_lock = j.queueing_lock and o.status = 'todo'
    ) then j.queueing_lock end
where id = %(id)s and worker_id = %(worker_id)s and attempts = %(attempts)s and status = 'doing'

-- give_back_unheard
-- Give back what was fetched for a worker that never heard of it.
update jobs.procrastinate_jobs j
set status = 'todo', attempts = attempts + 1, scheduled_at = null, worker_id = null, queueing_lock = null
where j.status = 'doing' and j.worker_id = %(worker_id)s and j.id <> all (%(in_hand)s::bigint[])

-- beat
-- A worker lives, also one that was struck off while it could not say so.
insert into jobs.procrastinate_workers (id, last_heartbeat) overriding system value values (%(worker_id)s, now())
on conflict (id) do update set last_heartbeat = excluded.last_heartbeat

-- sweep
-- Give the jobs of workers that have died back to the queue.
select run from private.sweep_jobs(%(seconds)s::float8) run

-- take_next
-- The next job in the queue, taken. Its record's columns are empty if it need not be done after all.
select t.id, t.status, t.task_name, t.priority, t.lock, t.queueing_lock, t.args, t.scheduled_at, t.queue_name,
       t.attempts, t.worker_id, r.id as run_id, r.task as run_task, r.user_id as run_user_id,
       r.workspace_id as run_workspace_id, r.asked_by as run_asked_by, r.origin as run_origin,
       r.arguments as run_arguments, r.attempt as run_attempt, r.failed as run_failed, r.fence as run_fence, r.done as run_done,
       r.total as run_total, r.checkpoint as run_checkpoint, r.key as run_key, r.created_at as run_created_at
from jobs.recollect_fetch(%(worker_id)s) t left join lateral private.begin_run((t.args ->> 'run')::uuid, t.id) r on true

-- fail_run
-- Record a failure, and whether that was the last attempt.
update jobs.runs
set state = case when %(at)s::timestamptz is null then 'failed' else 'waiting' end,
    error = %(error)s::text, fence = null, due_at = coalesce(%(at)s::timestamptz, due_at),
    attempt = attempt - %(uncounted)s::int, failed = failed + 1 - %(uncounted)s::int,
    finished_at = case when %(at)s::timestamptz is null then clock_timestamp() end,
    failures = case when %(uncounted)s::int = 1 then failures else failures || jsonb_build_object(
      'attempt', attempt, 'started_at', started_at, 'ended_at', clock_timestamp(), 'error', %(error)s::text) end
where id = %(id)s and fence = %(fence)s
returning id, task, user_id, workspace_id

-- release_run
-- Let go of a job that was interrupted; it is done again as if it had not begun.
update jobs.runs set state = 'waiting', fence = null, attempt = attempt - 1
where id = %(id)s and fence = %(fence)s

-- hold_run
-- Make sure that a job is still ours until the transaction ends.
select private.hold_run(%(id)s, %(fence)s)

-- advance_run
-- Say how far a job is, and from where it would go on.
select private.advance_run(%(id)s, %(fence)s, %(done)s, %(total)s, %(checkpoint)s::jsonb)

-- finish_run
-- Mark a job as done in the transaction of its last effect.
select private.finish_run(%(id)s, %(fence)s, %(result)s::jsonb)

-- enqueue
-- Queue a job in this transaction.
select private.enqueue_job(
  task => %(task)s, arguments => %(arguments)s::jsonb, key => %(key)s, due => %(at)s::timestamptz,
  for_user => %(user_id)s::uuid, for_workspace => %(workspace_id)s::uuid, in_order_of => %(in_order_of)s,
  origin => %(origin)s
) as id

-- get_run
-- One job.
select id, task, user_id, workspace_id, asked_by, origin, arguments, state, attempt, done, total, result, error,
       failures, created_at, due_at, started_at, finished_at
from jobs.runs where id = %(id)s

-- list_runs
-- One page of the jobs that the caller may see, the newest first.
with filtered as not materialized (
  select id, task, user_id, workspace_id, asked_by, origin, arguments, state, attempt, done, total, result, error,
         failures, created_at, due_at, started_at, finished_at
  from jobs.runs
  where (%(state)s::text is null or state = %(state)s) and (%(task)s::text is null or task = %(task)s)
    and (%(before)s::timestamptz is null or (created_at, id) < (%(before)s, %(before_id)s::uuid))
), own as (
  select * from filtered where user_id = (select auth.uid()) order by created_at desc, id desc limit %(limit)s
), shared as (
  select * from filtered
  where workspace_id = any ((select private.my_workspaces())::uuid[]) and user_id is distinct from (select auth.uid())
  order by created_at desc, id desc limit %(limit)s
)
select * from own union all select * from shared order by created_at desc, id desc limit %(limit)s

-- list_all_runs
-- One page of everybody's jobs, the newest first.
select id, task, user_id, workspace_id, asked_by, origin, arguments, state, attempt, done, total, result, error,
       failures, created_at, due_at, started_at, finished_at
from jobs.runs
where (%(state)s::text is null or state = %(state)s) and (%(task)s::text is null or task = %(task)s)
  and (%(before)s::timestamptz is null or (created_at, id) < (%(before)s, %(before_id)s::uuid))
order by created_at desc, id desc limit %(limit)s

-- count_runs
-- How many jobs the caller sees in each state.
select state, count(*)::int as jobs from (
  select state from jobs.runs where user_id = (select auth.uid())
  union all
  select state from jobs.runs
  where workspace_id = any ((select private.my_workspaces())::uuid[]) and user_id is distinct from (select auth.uid())
) seen group by state

-- count_all_runs
-- How many jobs of everybody's are in each state.
select state, count(*)::int as jobs from jobs.runs group by state

-- cancel_run
-- Stop a job, or take it out of the queue.
select private.cancel_run(%(id)s)

-- retry_run
-- Queue a job again that failed or was cancelled.
select private.retry_run(%(id)s)

-- purge_runs
-- Forget jobs that ended long ago, a batch at a time.
delete from jobs.runs where id in (
  select id from jobs.runs where finished_at < now() - %(age)s::interval limit %(batch)s for update skip locked
)

-- publish_failure
-- Tell those concerned that a job was given up.
select private.publish_event(
  'job.failed', 'job/' || %(id)s::text, jsonb_build_object('task', %(task)s::text, 'error', %(error)s::text),
  user_id => %(user_id)s::uuid, workspace_id => %(workspace_id)s::uuid)

-- ensure_schedule
-- Make sure that a job of all workspaces has its row.
insert into jobs.schedules (job) values (%(job)s) on conflict (job, workspace_id) do nothing

-- lock_schedule
-- When a job last came due; nobody else honours a tick until we are done.
select last_tick, last_run, has_run from jobs.schedules
where job = %(job)s and workspace_id is not distinct from %(workspace_id)s::uuid for update

-- record_tick
-- A tick was honoured.
update jobs.schedules
set last_tick = %(tick)s::timestamptz, last_run = %(run)s::uuid, has_run = %(has_run)s
where job = %(job)s and workspace_id is not distinct from %(workspace_id)s::uuid

-- enqueue_for_workspaces
-- Queue a job for every workspace that keeps no hours of its own.
select private.enqueue_job(%(task)s::text, key => %(job)s::text, for_workspace => w.id, origin => %(origin)s::text)
from public.workspaces w
where not exists (
  select from jobs.schedules s where s.job = %(job)s::text and s.workspace_id = w.id and s.cron is not null
)

-- list_schedules
-- When the jobs of all workspaces last came due.
select job, last_tick, last_run from jobs.schedules where workspace_id is null

-- list_hours
-- The workspaces that keep their own hours for a job.
select workspace_id, cron, last_tick from jobs.schedules
where job = %(job)s and workspace_id is not null and cron is not null

-- list_hours_of
-- A workspace's own hours.
select job, workspace_id, cron, last_tick, last_run from jobs.schedules
where workspace_id = %(workspace_id)s order by job

-- set_hours
-- Give a workspace hours of its own for a job.
insert into jobs.schedules (job, workspace_id, cron) values (%(job)s, %(workspace_id)s, %(cron)s)
on conflict (job, workspace_id) do update set cron = excluded.cron, updated_at = now()
returning job, workspace_id, cron, last_tick, last_run

-- drop_hours
-- Take a workspace's own hours away.
delete from jobs.schedules where job = %(job)s and workspace_id = %(workspace_id)s

-- backlog
-- What there is to do: for whoever looks after the server.
select count(*) filter (where state = 'waiting')::int as waiting, count(*) filter (where state = 'running')::int as running,
       coalesce(extract(epoch from now() - min(due_at) filter (where state = 'waiting' and due_at < now())), 0)::float8
         as oldest_seconds,
       (select count(*)::int from jobs.runs f where f.state = 'failed') as failed,
       (select count(*)::int from events.log l where l.position is null) as untold
from jobs.runs where finished_at is null
