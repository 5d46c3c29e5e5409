-- Chat histories: what people and their assistants said, as far as rules can be learnt from it.

create table public.chat_histories (
  id uuid primary key default private.new_id(),
  user_id uuid not null references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  project_id uuid references public.projects (id) on delete set null,
  source text not null check (char_length(source) between 1 and 64),
  file text check (char_length(file) <= 4096),
  session text not null check (char_length(session) between 1 and 512),
  project text check (char_length(project) <= 4096),
  author text check (char_length(author) <= 512),
  title text check (char_length(title) <= 1024),
  started_at timestamptz,
  imported_at timestamptz not null default clock_timestamp()
);
-- A session that is imported again, longer, is the same chat.
create unique index uq_chat_histories_session on public.chat_histories
  (user_id, workspace_id, source, md5(session)) nulls not distinct;
create index idx_chat_histories_user_id on public.chat_histories (user_id, imported_at desc, id desc);
create index idx_chat_histories_workspace_id on public.chat_histories (workspace_id) where workspace_id is not null;
create index idx_chat_histories_project_id on public.chat_histories (project_id) where project_id is not null;

create table public.chat_turns (
  id uuid primary key default private.new_id(),
  chat_id uuid not null references public.chat_histories (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  number integer not null check (number >= 0),
  role text not null check (role in ('user', 'assistant')),
  kind text not null default 'said' check (kind in ('said', 'queued', 'rejected')),
  text text not null check (char_length(text) between 1 and 70000),
  doing text not null default '' check (char_length(doing) <= 1000),
  language text check (char_length(language) <= 16),
  masked text[] not null default '{}',
  said_at timestamptz,
  digest bytea not null,
  analysed_in uuid
);
-- Resumed sessions repeat what was said in others.
create unique index uq_chat_turns_digest on public.chat_turns (user_id, digest);
create unique index uq_chat_turns_number on public.chat_turns (chat_id, number);
create index idx_chat_turns_new on public.chat_turns (user_id, chat_id) where analysed_in is null;

call private.close_to_all_but_service('public.chat_histories');
call private.close_to_all_but_service('public.chat_turns');
-- What somebody said to an assistant is theirs, in a workspace too; colleagues see what was quoted from it.
grant select, insert, update, delete on public.chat_histories to authenticated;
grant select, insert, delete on public.chat_turns to authenticated;
create policy "who may select" on public.chat_histories for select to authenticated using (user_id = (select auth.uid()));
create policy "who may delete" on public.chat_histories for delete to authenticated using (user_id = (select auth.uid()));
create policy "who may update" on public.chat_histories for update to authenticated
  using (user_id = (select auth.uid()))
  with check (user_id = (select auth.uid()) and (workspace_id is null
    or workspace_id = any ((select private.my_workspaces('{owner,admin,reviewer,member}'))::uuid[]))
    and (project_id is null
      or exists (select from public.projects p where p.id = project_id and p.workspace_id = chat_histories.workspace_id)));
create policy "who may insert" on public.chat_histories for insert to authenticated
  with check (user_id = (select auth.uid()) and (workspace_id is null
    or workspace_id = any ((select private.my_workspaces('{owner,admin,reviewer,member}'))::uuid[]))
    and (project_id is null
      or exists (select from public.projects p where p.id = project_id and p.workspace_id = chat_histories.workspace_id)));
create policy "who may select" on public.chat_turns for select to authenticated using (user_id = (select auth.uid()));
create policy "who may delete" on public.chat_turns for delete to authenticated using (user_id = (select auth.uid()));
create policy "who may insert" on public.chat_turns for insert to authenticated
  with check (user_id = (select auth.uid())
              and exists (select from public.chat_histories c where c.id = chat_id and c.user_id = (select auth.uid())));

comment on table public.chat_histories is 'A conversation with an assistant, from a file or an application.';
comment on column public.chat_histories.user_id is 'Who brought it here, and alone sees it.';
comment on column public.chat_histories.imported_at is 'When it last got turns.';
comment on column public.chat_histories.source is 'What wrote it: claude-code, codex, cursor, api and so on.';
comment on column public.chat_histories.project is 'The folder or repository that it was about.';
comment on table public.chat_turns is 'What was said in a chat; secrets are masked before they come here.';
comment on column public.chat_turns.doing is 'What the assistant had just done.';
comment on column public.chat_turns.masked is 'Kinds of secrets that were masked.';
comment on column public.chat_turns.number is 'From the chat''s start; what was said in another chat first has none here.';
comment on column public.chat_turns.digest is 'Keyed, of what was said and when or after what: the same in another session is a repetition by the program.';
comment on column public.chat_turns.analysed_in is 'The extraction that read it; none yet.';

create table public.chat_consents (
  id uuid primary key default private.new_id(),
  user_id uuid not null references auth.users (id) on delete cascade,
  workspace_id uuid references public.workspaces (id) on delete cascade,
  granted boolean not null,
  how text not null check (char_length(how) between 1 and 200),
  created_at timestamptz not null default clock_timestamp()
);
create index idx_chat_consents_user_id on public.chat_consents (user_id, created_at desc);
create index idx_chat_consents_workspace_id on public.chat_consents (workspace_id) where workspace_id is not null;
call private.close_to_all_but_service('public.chat_consents');
grant select, insert on public.chat_consents to authenticated;
create policy "who may select" on public.chat_consents for select to authenticated using (user_id = (select auth.uid()));
create policy "who may insert" on public.chat_consents for insert to authenticated
  with check (user_id = (select auth.uid()) and (workspace_id is null or workspace_id = any ((select private.my_workspaces())::uuid[])));
comment on table public.chat_consents is 'Who agreed when, or no longer, that rules are learnt from their chats.';
comment on column public.chat_consents.workspace_id is 'For chats in this workspace; none: for their own.';

create table public.rule_settings (
  workspace_id uuid primary key references public.workspaces (id) on delete cascade,
  consent text not null default 'author' check (consent in ('author', 'workspace')),
  changed_by uuid,
  changed_at timestamptz not null default clock_timestamp()
);
call private.protect_shared_in_workspace('public.rule_settings', 'workspace_id', '{owner,admin}');
comment on column public.rule_settings.consent is
  'Whose agreement it takes to analyse a chat: each author''s, or that of the workspace, which has seen to it otherwise.';

create function private.may_analyse(of_user uuid, of_workspace uuid) returns boolean
language sql stable security definer set search_path = '' as $$
  select (private.is_service() or of_user = auth.uid()) and coalesce(
    (select c.granted from public.chat_consents c
     where c.user_id = of_user and c.workspace_id is not distinct from of_workspace order by c.created_at desc, c.id desc limit 1),
    (select s.consent = 'workspace' from public.rule_settings s where s.workspace_id = of_workspace),
    false)
$$;
comment on function private.may_analyse is
  'Whether the caller may learn rules from somebody''s chats; whoever has said no is not overruled by their workspace.';

create function private.tell_chats_imported() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into events.log (type, subject, user_id, actor, data)
  select 'chat.imported', 'chat/' || t.chat_id, t.user_id, coalesce((auth.jwt() ->> 'act')::uuid, auth.uid()),
         jsonb_build_object('chatId', t.chat_id, 'turns', count(*), 'first', min(t.number), 'last', max(t.number))
  from added t group by t.chat_id, t.user_id;
  perform pg_notify('recollect_outbox', '');
  return null;
end $$;
create trigger tell_imported after insert on public.chat_turns
  referencing new table as added for each statement execute function private.tell_chats_imported();

revoke execute on function private.may_analyse, private.tell_chats_imported from public;
grant execute on function private.may_analyse to authenticated, service_role;
