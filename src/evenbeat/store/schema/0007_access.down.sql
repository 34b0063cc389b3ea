-- Takes away the list of tokens: those that were revoked are good again until they expire.
drop table evenbeat.idempotency;
drop table evenbeat.access_token;
