-- What the queue's own tables need beyond the library's schema: protection, and two indexes.

call private.close_to_all_but_service('jobs.procrastinate_jobs');
call private.close_to_all_but_service('jobs.procrastinate_workers');
call private.close_to_all_but_service('jobs.procrastinate_events');
call private.close_to_all_but_service('jobs.procrastinate_periodic_defers');
create policy "the queue does everything" on jobs.procrastinate_jobs to recollect_queue using (true) with check (true);
create policy "the queue does everything" on jobs.procrastinate_workers to recollect_queue using (true) with check (true);
create policy "the queue does everything" on jobs.procrastinate_events to recollect_queue using (true) with check (true);
create policy "the queue does everything" on jobs.procrastinate_periodic_defers to recollect_queue using (true) with check (true);
grant select, insert, update, delete on all tables in schema jobs to recollect_queue;
revoke all on jobs.runs, jobs.schedules from recollect_queue;
grant usage on all sequences in schema jobs to recollect_queue, service_role;

-- For each tenant's place in the queue, for what is served now, and for jobs that wait for one another.
create index recollect_jobs_doing on jobs.procrastinate_jobs (priority) where status = 'doing';
create index recollect_jobs_tenant on jobs.procrastinate_jobs (queue_name, priority) where status in ('todo', 'doing');
create index recollect_jobs_lock on jobs.procrastinate_jobs (lock, priority desc, id) where status in ('todo', 'doing');

-- The record of a job is in jobs.runs, the schedule in jobs.schedules: others would be kept for nothing.
alter table jobs.procrastinate_jobs disable trigger procrastinate_trigger_status_events_insert_v1;
alter table jobs.procrastinate_jobs disable trigger procrastinate_trigger_status_events_update_v1;
alter table jobs.procrastinate_jobs disable trigger procrastinate_trigger_scheduled_events_v1;
alter table jobs.procrastinate_jobs disable trigger procrastinate_trigger_abort_requested_events_v1;
alter table jobs.procrastinate_jobs disable trigger procrastinate_trigger_delete_jobs_v1;

create function jobs.recollect_fetch(worker bigint) returns jobs.procrastinate_jobs
language sql set search_path = jobs, pg_temp
-- A queue is empty when it is analysed and full when it matters. Misled by that, Postgres would gather and sort
-- all that waits to find the first; an index has it first.
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off as $$
  -- Not worth waiting for the disk: forgotten in a crash, the job is fetched again, and whoever had it is fenced off.
  select set_config('synchronous_commit', 'off', true);
  select * from procrastinate_fetch_job_v2(null, worker);
$$;
-- Rows come and go all the time.
alter table jobs.procrastinate_jobs set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
