-- Every row of the table; columns as in create_ledger.sql.
copy (select id, epoch, session, seq, part, payload, checksum from only dbcheck.{table})
  to stdout (format binary);
