-- act_by_key
-- Become the user whose API key this is.
select set_config('role', 'authenticated', true),
       set_config('request.jwt.claims', private.claims_of_key(%(credential_)s, %(needs_)s, %(subject_)s), true) as claims

-- act_by_session
-- Become the user whose session this is.
select set_config('role', 'authenticated', true),
       set_config('request.jwt.claims', private.claims_of_session(%(credential_)s, %(needs_)s, %(subject_)s), true) as claims

-- act_by_user
-- Become a user whose identity was proved elsewhere.
select set_config('role', 'authenticated', true),
       set_config('request.jwt.claims', private.claims_of_user(%(credential_)s, %(needs_)s, %(subject_)s), true) as claims

-- act_as_service
-- Become the service, which sees every tenant.
select set_config('role', 'service_role', true),
       set_config('request.jwt.claims', '{"role": "service_role"}', true) as claims

-- act_as_nobody
-- Become anonymous.
select set_config('role', 'anon', true),
       set_config('request.jwt.claims', '{"role": "anon"}', true) as claims

-- become
-- Take a role until the transaction ends.
select set_config('role', %(role_)s, true)

-- ping
-- Ask whether anybody is there.
select 1

-- notify
-- Call out to whoever listens on a channel.
select pg_notify(%(channel)s, '')
