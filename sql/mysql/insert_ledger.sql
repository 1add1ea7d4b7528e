-- One row of the ledger, prepared; columns as in create_ledger.sql.
insert into ledger (epoch, session, seq, part, payload, checksum)
values (?, ?, ?, ?, ?, ?);
