-- Operations: nodes, the audit, access, maintenance, and the chores that keep the database small.

create table evenbeat.node (
    id integer generated always as identity primary key,
    name text not null,
    kinds text[] not null,
    labels text[] not null,
    joined_at timestamptz not null,
    seen_at timestamptz not null default statement_timestamp(),
    alive_until timestamptz not null,
    -- Since when it is given no more work.
    draining_at timestamptz,
    dead_at timestamptz,
    swept_at timestamptz
) with (fillfactor = 50);
create index node_unswept on evenbeat.node (id) where swept_at is null;
comment on table evenbeat.node is
    'One row per process; ids are never used again, so a restarted process is another node.';

-- Rows are only ever added, in the transaction of the change itself.
create table evenbeat.audit (
    id bigint generated always as identity primary key,
    at evenbeat.instant not null,
    actor text not null,
    action text not null,
    -- Null: the whole of Evenbeat was meant, not one job.
    job_id bigint,
    job_uid uuid,
    job_name text,
    request_id text,
    before jsonb not null,
    after jsonb not null
);
create index audit_job on evenbeat.audit (job_id, id) where job_id is not null;
create index audit_actor on evenbeat.audit (actor, id);

-- At most one row, and none while everything runs as usual. Every claim looks here.
create table evenbeat.maintenance (
    is_on boolean primary key default true check (is_on),
    since evenbeat.instant not null,
    reason text not null,
    actor text not null
);

-- The tokens that Evenbeat issued.
create table evenbeat.access_token (
    -- The claim `jti`. The token itself is not kept: a reader of this table cannot sign in with it.
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

-- The answers that a repeated request is given again.
create table evenbeat.idempotency (
    caller text not null,
    key text collate "C" not null check (key <> '' and length(key) <= 255),
    -- Of method, address and body: a key stands for one request.
    fingerprint bytea not null check (length(fingerprint) = 32),
    -- The request that came first; the audit has its changes under this id.
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

-- One row per chore. A node locks the row (SKIP LOCKED) and does the next piece of the chore: one
-- node at a time, and a node that dies meanwhile blocks no other.
create table evenbeat.chore (
    name text collate "C" primary key,
    -- Done up to this key; the next piece begins behind it.
    cursor bigint not null default 0,
    -- Counting only: how far it may go, once every transaction older than this one has ended.
    goal bigint not null default 0,
    goal_xid xid8,
    -- Pauses are about processes: by the database's own clock.
    next_at timestamptz not null,
    -- When it last began with the first key.
    swept_at timestamptz,
    round_count bigint not null default 0,
    round_ms double precision not null default 0,
    last_at timestamptz,
    last_count bigint not null default 0,
    last_ms double precision not null default 0,
    total_count bigint not null default 0
) with (fillfactor = 50);
comment on column evenbeat.chore.goal is
    'Of counting, how far it may go; of letters, the newest run whose letter has been removed.';

-- Figures of the whole cluster. One node takes them for all: reading them costs nothing.
create table evenbeat.figure (
    name text collate "C" primary key,
    taken_at timestamptz not null,
    value jsonb not null
) with (fillfactor = 50);
