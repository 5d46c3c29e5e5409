-- Proposals of agents: who proposed and who decided is for the database to say, and people can be told.

create function private.sign_proposal() returns trigger
language plpgsql set search_path = '' as $$
declare
  whoever uuid := coalesce((auth.jwt() ->> 'act')::uuid, auth.uid());
begin
  if new.state <> 'pending' then
    new.decided_by := whoever;
    new.decided_at := clock_timestamp();
  elsif tg_op = 'INSERT'
    or (old.content, old.extra_metadata, old.agent) is distinct from (new.content, new.extra_metadata, new.agent)
  then
    -- Another id: whoever is looking at the old one shall not decide about what they have not seen.
    new.id := private.new_id();
    new.proposed_by := whoever;
    new.created_at := clock_timestamp();
  end if;
  return new;
end $$;
create trigger sign before insert or update on public.brain_proposals
  for each row execute function private.sign_proposal();

create function private.tell_proposed() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform private.append_event(
    'brain.proposed', format('brain/%s/%s', new.about, new.slug),
    jsonb_build_object('slug', new.slug, 'proposalId', new.id, 'agent', new.agent),
    user_id => new.user_id, company_id => new.company_id);
  return null;
end $$;
create trigger tell_new after insert on public.brain_proposals
  for each row when (new.state = 'pending') execute function private.tell_proposed();
create trigger tell_newer after update on public.brain_proposals
  for each row when (old.id is distinct from new.id) execute function private.tell_proposed();
revoke execute on function private.sign_proposal, private.tell_proposed from public;
