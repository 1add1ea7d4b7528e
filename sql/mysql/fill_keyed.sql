-- Rows that stand in the table before a load, many at once, each with values like the
-- last ones here; columns as in create_ledger.sql.
insert into {table} (epoch, session, seq, part, payload, checksum)
values (?, ?, ?, ?, ?, ?);
