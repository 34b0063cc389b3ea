-- name: backend_pid
-- Another number than the one told when connecting: then a pooler stands in between.
select pg_backend_pid();

-- name: apply_settings
-- For this transaction only: behind a pooler the next one runs on any server, and what was set
-- for good would be met by strangers.
select set_config(given.name, given.value, true)
from unnest(:names::text[], :values::text[]) as given (name, value);
