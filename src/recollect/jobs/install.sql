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

-- For each tenant's place in the queue, and for jobs that wait for one another.
create index recollect_jobs_tenant on jobs.procrastinate_jobs (queue_name, priority) where status = 'todo';
create index recollect_jobs_lock on jobs.procrastinate_jobs (lock, priority desc, id) where status in ('todo', 'doing');

-- The record of a job is in jobs.runs; a second one of each change of state would be written and deleted again.
alter table jobs.procrastinate_jobs disable trigger procrastinate_trigger_status_events_insert_v1;
alter table jobs.procrastinate_jobs disable trigger procrastinate_trigger_status_events_update_v1;
alter table jobs.procrastinate_jobs disable trigger procrastinate_trigger_scheduled_events_v1;
alter table jobs.procrastinate_jobs disable trigger procrastinate_trigger_abort_requested_events_v1;
