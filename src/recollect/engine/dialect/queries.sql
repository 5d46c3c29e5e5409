-- whoami
-- The caller and the caller's own project, their personal workspace.
select auth.uid() as user_id, w.id as project_id
from (select 1) as one left join public.workspaces w on w.personal_to = auth.uid()

-- is_personal
-- Whether a workspace of the caller's is the personal one.
select w.personal_to is not null as is_personal from public.workspaces w where w.id = %(id)s

-- page_of_memories
-- Memories in scope from some place on, newest first.
select m.* from private.memories_in(
  coalesce(%(workspace)s, auth.uid()), %(of_user)s, %(of_agent)s, %(of_app)s, %(of_run)s,
  %(expired)s, %(superseded)s, %(path)s::jsonpath, %(values)s::jsonb) m
order by m.created_at desc, m.id desc
offset %(offset)s limit %(limit)s

-- delete_chain
-- Leave tombstones for a memory and for all that it superseded, down to the first.
with recursive chain as (
  select m.id from public.memories m where m.id = %(id)s and m.deleted_at is null
  union
  select m.id from public.memories m join chain c on m.superseded_by = c.id where m.deleted_at is null
)
update public.memories m set deleted_at = now(), event = 'DELETE', reason = %(reason)s
from chain c where m.id = c.id

-- add_request
-- Note a request, to be done by a job or done already.
insert into public.mem0_requests (id, workspace_id, job, kind, wanted, results, not_understood, completed_at)
values (coalesce(%(job)s::uuid, private.new_id()), %(workspace)s::uuid, %(job)s::uuid, %(kind)s, %(wanted)s::jsonb,
        %(results)s::jsonb, %(not_understood)s, case when %(job)s::uuid is null then clock_timestamp() end)
returning id

-- take_request
-- What a job is to add, and what its project wants of that.
select r.wanted, p.custom_instructions, p.agent_custom_instructions
from public.mem0_requests r
left join public.mem0_projects p
  on p.workspace_id = coalesce(r.workspace_id, (select w.id from public.workspaces w where w.personal_to = auth.uid()))
where r.job = %(job)s and r.wanted is not null

-- settle_request
-- What came of a request; what was to be added is in the memories now.
update public.mem0_requests
set wanted = null, results = %(results)s::jsonb, not_understood = %(not_understood)s, completed_at = clock_timestamp()
where job = %(job)s

-- get_request
-- A request, how far it is, and what the memories that it touched say now.
select r.id, r.kind, r.results, r.not_understood, r.created_at, coalesce(r.completed_at, j.finished_at) as completed_at,
       j.started_at, j.error, coalesce(j.state, 'succeeded') as state, coalesce((
         select jsonb_object_agg(m.id, m.text) from public.memories m
         where m.deleted_at is null
           and m.id in (select (e ->> 'id')::uuid from jsonb_array_elements(r.results) e)), '{}') as texts
from public.mem0_requests r left join jobs.runs j on j.id = r.job
where r.id = %(id)s and r.kind <> 'EXPORT'

-- list_requests
-- The caller's requests, newest first.
select r.id, r.kind, r.results, r.not_understood, r.created_at, coalesce(r.completed_at, j.finished_at) as completed_at,
       j.started_at, j.error, coalesce(j.state, 'succeeded') as state, coalesce((
         select jsonb_object_agg(m.id, m.text) from public.memories m
         where m.deleted_at is null
           and m.id in (select (e ->> 'id')::uuid from jsonb_array_elements(r.results) e)), '{}') as texts
from public.mem0_requests r left join jobs.runs j on j.id = r.job
where r.user_id = (select auth.uid()) and r.kind <> 'EXPORT'
order by r.created_at desc, r.id desc
offset %(offset)s limit %(limit)s

-- count_requests
-- How many requests the caller has made of late.
select count(*) as requests from public.mem0_requests r
where r.user_id = (select auth.uid()) and r.kind <> 'EXPORT'

-- find_export
-- An export by its id, or the latest with these filters.
select r.wanted, r.workspace_id from public.mem0_requests r
where r.user_id = (select auth.uid()) and r.kind = 'EXPORT'
  and (r.id = %(id)s::uuid or (%(id)s::uuid is null and r.wanted = %(wanted)s::jsonb
                               and r.workspace_id is not distinct from %(workspace)s::uuid))
order by r.created_at desc, r.id desc limit 1

-- get_project
-- What a workspace wants of memories.
select custom_instructions, agent_custom_instructions, custom_categories
from public.mem0_projects where workspace_id = %(id)s

-- change_project
-- Change what is given of a workspace's wishes, and leave the rest.
insert into public.mem0_projects as p (workspace_id, custom_instructions, agent_custom_instructions, custom_categories)
values (%(id)s, %(custom_instructions)s, %(agent_custom_instructions)s, coalesce(%(custom_categories)s::jsonb, '[]'))
on conflict (workspace_id) do update
set custom_instructions = coalesce(excluded.custom_instructions, p.custom_instructions),
    agent_custom_instructions = coalesce(excluded.agent_custom_instructions, p.agent_custom_instructions),
    custom_categories = coalesce(%(custom_categories)s::jsonb, p.custom_categories), updated_at = now()
returning workspace_id

-- purge_requests
-- Forget a batch of old requests that no job goes with.
delete from public.mem0_requests where id in (
  select r.id from public.mem0_requests r where r.job is null and r.created_at < now() - %(age)s::interval
  limit %(batch)s for update skip locked
)
