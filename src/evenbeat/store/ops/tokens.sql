-- These statements use the database's own clock even where tests set :now: the processes that check
-- tokens compare their expiry with the real time.

-- name: insert
insert into evenbeat.access_token (id, name, role, issued_at, expires_at, issued_by)
values (:id, :name, :role, :issued_at, :expires_at, :issued_by);

-- name: by_id
select
    access_token.id, access_token.name, access_token.role, access_token.issued_at,
    access_token.expires_at, access_token.issued_by, access_token.revoked_at,
    access_token.revoked_by
from evenbeat.access_token
where access_token.id = :id;

-- name: page
-- Newest first.
select
    access_token.id, access_token.name, access_token.role, access_token.issued_at,
    access_token.expires_at, access_token.issued_by, access_token.revoked_at,
    access_token.revoked_by
from evenbeat.access_token
order by access_token.issued_at desc, access_token.id desc
limit :limit
offset :offset;

-- name: count
select count(*)
from evenbeat.access_token;

-- name: revoke
-- The first revocation counts; a second one changes nothing.
update evenbeat.access_token
set revoked_at = statement_timestamp(),
    revoked_by = :revoked_by
where access_token.id = :id
  and access_token.revoked_at is null;

-- name: revoked
-- Revoked tokens that have not expired; a reader's clock may be off by a minute.
select access_token.id
from evenbeat.access_token
where access_token.revoked_at is not null
  and access_token.expires_at > statement_timestamp() - interval '1 minute';

-- name: expire
-- Remove tokens that expired long ago, at most :limit at once.
delete from evenbeat.access_token
where access_token.id in (
    select old.id
    from evenbeat.access_token as old
    where old.expires_at < statement_timestamp() - make_interval(secs => :kept_seconds)
    order by old.id
    limit :limit
    for update skip locked
);
