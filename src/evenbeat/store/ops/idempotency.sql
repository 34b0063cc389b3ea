-- name: reserve
-- The first request with a key takes it; an expired key counts as new. No row comes back to the second
-- request, also if both came at once: it waits for the row of the first one and finds it unexpired.
insert into evenbeat.idempotency (caller, key, fingerprint, request_id, created_at)
values (:caller, :key, :fingerprint, :request_id, :now)
on conflict (caller, key) do update
set fingerprint = excluded.fingerprint,
    request_id = excluded.request_id,
    created_at = excluded.created_at,
    status = null,
    headers = null,
    body = null
where idempotency.created_at <= :now - make_interval(secs => :kept_seconds)
returning idempotency.created_at;

-- name: find
select
    idempotency.fingerprint, idempotency.request_id, idempotency.status, idempotency.headers,
    idempotency.body,
    :now - idempotency.created_at as age
from evenbeat.idempotency
where idempotency.caller = :caller
  and idempotency.key = :key;

-- name: store
-- Only for the request that reserved the key: another request may have taken it in the meantime.
update evenbeat.idempotency
set status = :status,
    headers = :headers::jsonb,
    body = :body
where idempotency.caller = :caller
  and idempotency.key = :key
  and idempotency.request_id = :request_id
  and idempotency.status is null;

-- name: release
-- Nothing was changed: the key is free again.
delete from evenbeat.idempotency
where idempotency.caller = :caller
  and idempotency.key = :key
  and idempotency.request_id = :request_id
  and idempotency.status is null;

-- name: expire_idempotency
-- Remove expired keys, at most :limit at once.
delete from evenbeat.idempotency
where (idempotency.caller, idempotency.key) in (
    select old.caller, old.key
    from evenbeat.idempotency as old
    where old.created_at <= :now - make_interval(secs => :kept_seconds)
    order by old.created_at, old.caller, old.key
    limit :limit
    for update skip locked
);
