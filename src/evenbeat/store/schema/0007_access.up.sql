-- Access: the tokens we made, and the answers that a repeated request is given again.

create table evenbeat.access_token (
    -- The claim `jti`. The token itself is not kept: this table opens no door.
    id uuid primary key,
    name text not null check (name <> '' and length(name) <= 200),
    role text not null check (role in ('viewer', 'operator', 'admin')),
    issued_at evenbeat.instant not null,
    expires_at evenbeat.instant not null check (expires_at > issued_at),
    issued_by text not null,
    revoked_at evenbeat.instant,
    revoked_by text,
    check ((revoked_at is null) = (revoked_by is null))
);
create index access_token_issued on evenbeat.access_token (issued_at, id);
create index access_token_expires on evenbeat.access_token (expires_at);
create index access_token_revoked on evenbeat.access_token (expires_at)
    where revoked_at is not null;

create table evenbeat.idempotency (
    caller text not null,
    key text collate "C" not null check (key <> '' and length(key) <= 255),
    -- Of method, address and body: a key stands for one request.
    fingerprint bytea not null check (length(fingerprint) = 32),
    -- The request that came first: what it changed can be found by this.
    request_id text not null,
    created_at evenbeat.instant not null,
    -- The answer; null while it is being made, or when it never was.
    status smallint check (status between 200 and 299),
    headers jsonb,
    body bytea,
    primary key (caller, key),
    check ((status is null) = (headers is null) and (status is null) = (body is null))
);
create index idempotency_created on evenbeat.idempotency (created_at);
