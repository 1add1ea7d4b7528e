-- Every row, out of the clustered index; columns as in create_ledger.sql.
select id, epoch, session, seq, part, payload, checksum
  from {table} force index (primary);
