-- People who share a workspace or a company: finding somebody to add, and knowing each other by name.

create function private.user_to_add(shared_id uuid, address text, known uuid) returns uuid
language plpgsql stable security definer set search_path = '' as $$
declare
  found_id uuid;
begin
  -- Who manages nothing here does not learn whether there is such an address.
  if (shared_id = any (private.my_workspaces('{owner,admin}') || private.my_companies('{owner,admin}')))
    is not true
  then
    raise exception 'Only owners and admins add members.' using errcode = 'RC403';
  end if;
  -- An address that nobody has confirmed may have been entered by somebody else.
  select u.id into found_id from auth.users u
  where u.deleted_at is null
    and (u.id = known or (lower(u.email) = lower(address) and u.email_confirmed_at is not null))
  order by u.created_at limit 1;
  if not found then
    raise exception 'There is no such user; somebody has to have an account before they can be added.'
      using errcode = 'RC404';
  end if;
  return found_id;
end $$;
comment on function private.user_to_add is
  'The user with this address or id, for those who manage the workspace or company to add to.';

create function private.fellows(known uuid[]) returns table (id uuid, email text, full_name text)
language sql stable security definer set search_path = '' as $$
  select u.id, u.email::text, p.full_name
  from auth.users u left join public.profiles p on p.id = u.id
  where u.id = any (known) and u.deleted_at is null and (
    exists (
      select from public.workspace_members m
      where m.user_id = u.id and m.workspace_id = any ((select private.my_workspaces())::uuid[])
    ) or exists (
      select from public.company_members m
      where m.user_id = u.id and m.company_id = any ((select private.my_companies())::uuid[])
    )
  )
$$;
comment on function private.fellows is
  'Names and addresses of those among these users who share a workspace or company with the caller.';

revoke execute on function private.user_to_add, private.fellows from public;
grant execute on function private.user_to_add, private.fellows to authenticated;
