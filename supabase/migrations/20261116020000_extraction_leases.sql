-- An extraction is held for as long as its worker is heard of, however long it takes.

alter table public.extraction_runs add column seen_at timestamptz not null default clock_timestamp();
comment on column public.extraction_runs.seen_at is 'When its worker was last heard of.';

create or replace function private.begin_extraction(of_user uuid, of_workspace uuid, of_origin text, lease interval) returns uuid
language plpgsql security definer set search_path = '' as $$
declare
  begun uuid;
begin
  perform private.hold_to_tenant(of_user);
  if of_workspace is not null then
    perform private.hold_to_tenant(of_workspace, '{owner,admin,reviewer,member}');
  end if;
  if not private.may_analyse(of_user, of_workspace) then
    raise exception 'Nobody''s chats are read for rules before they have agreed to it.' using errcode = 'RC403';
  end if;
  update public.extraction_runs r
  set state = 'failed', ended_at = clock_timestamp(), error = 'The worker ended before the extraction did.',
      (input_tokens, output_tokens) = (select spent.input, spent.output from private.tokens_spent(r) spent)
  where r.user_id = of_user and r.workspace_id is not distinct from of_workspace and r.state = 'running'
    and r.seen_at < clock_timestamp() - lease;
  insert into public.extraction_runs (user_id, workspace_id, origin) values (of_user, of_workspace, of_origin)
  on conflict do nothing returning id into begun;
  return begun;
end $$;
