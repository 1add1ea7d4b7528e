-- One row of the ledger, prepared; columns as in create_ledger.sql.
insert into dbcheck.ledger (epoch, session, seq, part, payload, checksum)
values ($1, $2, $3, $4, $5, $6)
returning id;
