-- forward_job
-- Queue a job for a message, or find the one that it has led to already.
select private.forward_job(%(task)s::text, %(arguments)s::jsonb, %(message)s::text) as id
