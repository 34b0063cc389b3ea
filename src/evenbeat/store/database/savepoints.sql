-- Parts of a transaction that a caller has begun and that we must not end.

-- name: begin_part
savepoint evenbeat_part;

-- name: keep_part
release savepoint evenbeat_part;

-- name: undo_part
rollback to savepoint evenbeat_part;
