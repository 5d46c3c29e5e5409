-- list_rules
-- One page of rules, a workspace's or the caller's own, the newest first.
select r.id, r.rule_text, r.rule_category as category, r.confidence_score as confidence, a.status, r.kind, r.scope, r.evidence,
       r.contradicts, r.source_session_ids, r.mem0_memory_id, r.usage_count, r.last_used_at, r.workspace_id, r.project_id,
       r.extracted_by, r.made_by, a.reviewed_by, a.reviewed_at, a.rejection_reason, a.revision_notes, r.created_at, r.updated_at
from extracted_rules r join rule_approvals a on a.rule_id = r.id
where case when %(workspace)s::uuid is null then r.owner_id = (select auth.uid()) else r.workspace_id = %(workspace)s end
  and (%(project)s::uuid is null or r.project_id = %(project)s)
  and (%(status)s::text is null or a.status = %(status)s)
  and (%(category)s::text is null or r.rule_category = %(category)s)
  and (%(min_confidence)s::double precision is null or r.confidence_score >= %(min_confidence)s)
  and (%(before)s::timestamptz is null or (r.created_at, r.id) < (%(before)s, %(before_id)s))
order by r.created_at desc, r.id desc limit %(limit)s

-- get_rules
-- These rules, as far as the caller sees them.
select r.id, r.rule_text, r.rule_category as category, r.confidence_score as confidence, a.status, r.kind, r.scope, r.evidence,
       r.contradicts, r.source_session_ids, r.mem0_memory_id, r.usage_count, r.last_used_at, r.workspace_id, r.project_id,
       r.extracted_by, r.made_by, a.reviewed_by, a.reviewed_at, a.rejection_reason, a.revision_notes, r.created_at, r.updated_at
from extracted_rules r join rule_approvals a on a.rule_id = r.id
where r.id = any (%(ids)s::uuid[])

-- decide_rule
-- Say yes, no or otherwise to a rule.
select private.decide_rule(%(id)s, %(status)s, auth.uid(), %(reason)s)

-- approved_rules
-- Hand out the rules that hold.
select id, rule_text, rule_category as category, confidence_score as confidence, project_id, scope
from get_approved_rules(%(workspace)s, %(project)s, %(category)s)

-- known_rules
-- What a tenant has already, the newest first.
select r.id, r.rule_text, a.status,
       (select coalesce(jsonb_agg(jsonb_build_array(e ->> 'turn_id', e ->> 'quote')), '[]') from jsonb_array_elements(r.evidence) e) as quotes
from extracted_rules r join rule_approvals a on a.rule_id = r.id
where case when %(workspace)s::uuid is null then r.owner_id = %(user_id)s else r.workspace_id = %(workspace)s end
order by r.created_at desc, r.id desc limit %(limit)s

-- hold_chat
-- Whether a chat is there still; until the transaction ends it is not forgotten.
select private.hold_chat(%(id)s) as is_there

-- hold_rules
-- Let one extraction write rules of a tenant after the other, so that each knows what the others have written.
select pg_advisory_xact_lock(hashtextextended('recollect: rules of ' || coalesce(%(workspace)s::uuid, %(user_id)s)::text, 0))

-- places_of_chats
-- In which workspace each of these chats of a user is.
select id, workspace_id from chat_histories where user_id = %(user_id)s and id = any (%(ids)s::uuid[])

-- begin_extraction
-- Begin to read somebody's chats for rules.
select private.begin_extraction(%(user_id)s, %(workspace)s, %(origin)s, %(lease)s) as id

-- hold_extraction
-- Its worker is still at it.
update extraction_runs set seen_at = clock_timestamp() where id = %(id)s and state = 'running'

-- note_rules
-- Write down what an extraction found.
select id, is_new, is_raised from private.note_rules(%(run)s, %(rules)s::jsonb, %(read)s::uuid[]) order by nth

-- end_extraction
-- Say what became of an extraction.
select private.end_extraction(%(run)s, %(state)s, %(counted)s::jsonb, %(error)s)

-- get_run
-- One extraction.
select id, user_id, workspace_id, state, origin, made_by, prompt_id, prompt_version, chats, turns, candidates, proposed, repeated,
       refused, tokens_whole, tokens_sent, input_tokens, output_tokens, cost_usd, error, started_at, ended_at
from extraction_runs where id = %(id)s

-- list_runs
-- One page of extractions that the caller sees, of a workspace or of the caller's own chats, the newest first.
select id, user_id, workspace_id, state, origin, made_by, prompt_id, prompt_version, chats, turns, candidates, proposed, repeated,
       refused, tokens_whole, tokens_sent, input_tokens, output_tokens, cost_usd, error, started_at, ended_at
from extraction_runs
where case when %(workspace)s::uuid is null then workspace_id is null and user_id = (select auth.uid())
      else workspace_id = %(workspace)s end
  and (%(before)s::timestamptz is null or (started_at, id) < (%(before)s, %(before_id)s))
order by started_at desc, id desc limit %(limit)s

-- prompt_in_use
-- The prompt for a workspace's chats: its own before the one for all, the latest before the others.
select id, name, description, prompt_text, version, is_active, target_categories, min_confidence, workspace_id, created_by,
       created_at, updated_at
from extraction_prompts
where is_active and (workspace_id is null or workspace_id = %(workspace)s)
order by workspace_id is null, updated_at desc, id desc limit 1

-- get_prompt
-- One prompt.
select id, name, description, prompt_text, version, is_active, target_categories, min_confidence, workspace_id, created_by,
       created_at, updated_at
from extraction_prompts where id = %(id)s

-- list_prompts
-- The prompts that the caller sees: those for all, and those of a workspace.
select id, name, description, prompt_text, version, is_active, target_categories, min_confidence, workspace_id, created_by,
       created_at, updated_at
from extraction_prompts where workspace_id is null or workspace_id = %(workspace)s
order by workspace_id is null, name, id limit %(limit)s

-- add_prompt
-- Add a prompt, for a workspace or for all.
insert into extraction_prompts (name, description, prompt_text, is_active, target_categories, min_confidence, workspace_id, created_by)
values (%(name)s, %(description)s, %(prompt_text)s, %(is_active)s, %(target_categories)s, %(min_confidence)s, %(workspace)s, %(created_by)s)
returning id, name, description, prompt_text, version, is_active, target_categories, min_confidence, workspace_id, created_by,
          created_at, updated_at

-- change_prompt
-- Change what is given of a prompt; how it was is kept as an earlier version.
update extraction_prompts p
set prompt_text = coalesce(g.given ->> 'prompt_text', p.prompt_text),
    description = case when g.given ? 'description' then g.given ->> 'description' else p.description end,
    is_active = coalesce((g.given ->> 'is_active')::boolean, p.is_active),
    target_categories = case when not g.given ? 'target_categories' then p.target_categories
                             when g.given -> 'target_categories' = 'null' then null
                             else array(select jsonb_array_elements_text(g.given -> 'target_categories')) end,
    min_confidence = coalesce((g.given ->> 'min_confidence')::double precision, p.min_confidence)
from (select %(given)s::jsonb as given) g
where p.id = %(id)s
returning p.id, p.name, p.description, p.prompt_text, p.version, p.is_active, p.target_categories, p.min_confidence, p.workspace_id,
          p.created_by, p.created_at, p.updated_at

-- prompt_versions
-- Every earlier text of a prompt, the latest first.
select prompt_id, version, description, prompt_text, is_active, target_categories, min_confidence, changed_by, changed_at
from extraction_prompt_versions where prompt_id = %(id)s order by version desc limit %(limit)s

-- users_with_news
-- A page of those who have agreed, may write there, and have said something in these chats that no extraction has read.
select n.user_id as id from (
  select distinct t.user_id from chat_turns t join chat_histories c on c.id = t.chat_id
  where t.analysed_in is null and t.user_id > %(after)s and c.workspace_id is not distinct from %(workspace)s
) n
where private.may_analyse(n.user_id, %(workspace)s)
  and (%(workspace)s::uuid is null or exists (
    select from workspace_members m where m.workspace_id = %(workspace)s and m.user_id = n.user_id and m.role <> 'viewer'))
order by n.user_id limit %(limit)s
