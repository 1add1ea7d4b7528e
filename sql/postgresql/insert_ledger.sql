-- Prepares one operation; columns as in create_ledger.sql.
prepare dbcheck_insert (bigint, integer, bigint, smallint, bytea, bigint) as
insert into dbcheck.ledger (epoch, session, seq, part, payload, checksum)
values ($1, $2, $3, $4, $5, $6)
returning id;
