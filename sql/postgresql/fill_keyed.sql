-- Rows that stand in the table before a load, many at once; columns as in
-- create_ledger.sql.
copy dbcheck.{table} (epoch, session, seq, part, payload, checksum)
  from stdin (format binary);
