-- name: backend_pid
-- If this is another number than the one from the start of the connection, there is a pooler.
select pg_backend_pid();

-- name: apply_settings
-- For this transaction only: behind a pooler the next one may run on another server, and other
-- clients would meet what was set for the session.
select set_config(given.name, given.value, true)
from unnest(:names::text[], :values::text[]) as given (name, value);
